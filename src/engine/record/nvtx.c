#include "engine/record/nvtx.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The interface of NVTX 3 between a program and an injected tool. The tool's entry point receives a
 * function that returns export tables by number. Table 1 ("callbacks") gives the tool arrays of slots, one
 * array per module; a slot is the address of one of our function pointers, which the tool may set. Table 3
 * ("version info") contains the version. Modules 1 ("core") and 5 ("core2", domains) have 16 slots, of
 * which the first is unused. */
enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, MODULE_CORE = 1, MODULE_CORE2 = 5, SLOTS = 16 };
enum { CORE_RANGE_PUSH_A = 9, CORE_RANGE_POP = 11 };
enum { CORE2_RANGE_PUSH_EX = 4, CORE2_RANGE_POP = 5, CORE2_DOMAIN_CREATE_A = 12 };

struct attributes { /* nvtxEventAttributes_t */
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t text_type;
    const char *text;
};
enum { ATTRIBUTES_VERSION = 3, TEXT_ASCII = 1 };

static int (*range_push)(const char *name);
static int (*range_pop)(void);
static void *(*domain_create)(const char *name);
static int (*domain_push)(void *domain, const struct attributes *a);
static int (*domain_pop)(void *domain);
static void *domain;

typedef void (*any_fn)(void);
static any_fn unused[SLOTS];
static any_fn *core_slots[SLOTS + 1], *core2_slots[SLOTS + 1];

static int get_module_table(uint32_t module, any_fn ***out_table, uint32_t *out_bytes) {
    if (module != MODULE_CORE && module != MODULE_CORE2) return 0;
    if (out_bytes) *out_bytes = SLOTS;
    if (out_table) *out_table = module == MODULE_CORE ? core_slots : core2_slots;
    return 1;
}

static const struct {
    size_t struct_bytes;
    int (*get)(uint32_t, any_fn ***, uint32_t *);
} callbacks_table = { sizeof callbacks_table, get_module_table };

static void set_injection_version(uint32_t version) { (void)version; }
static const struct {
    size_t struct_bytes;
    uint32_t version, reserved;
    void (*set)(uint32_t);
} version_table = { sizeof version_table, 3, 0, set_injection_version };

static const void *export_table(uint32_t id) {
    if (id == TABLE_CALLBACKS) return &callbacks_table;
    if (id == TABLE_VERSION) return &version_table;
    return NULL;
}

void nvtx_attach(void) {
    static bool tried;
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (tried || !path) return;
    tried = true;
    for (int i = 1; i < SLOTS; i++) core_slots[i] = core2_slots[i] = &unused[i];
    core_slots[CORE_RANGE_PUSH_A] = (any_fn *)&range_push;
    core_slots[CORE_RANGE_POP] = (any_fn *)&range_pop;
    core2_slots[CORE2_RANGE_PUSH_EX] = (any_fn *)&domain_push;
    core2_slots[CORE2_RANGE_POP] = (any_fn *)&domain_pop;
    core2_slots[CORE2_DOMAIN_CREATE_A] = (any_fn *)&domain_create;
    void *library = dlopen(path, RTLD_LAZY);
    int (*init)(const void *(*)(uint32_t)) = NULL;
    if (library) *(void **)&init = dlsym(library, "InitializeInjectionNvtx2");
    if (init) init(export_table);
    if (domain_create && domain_push && domain_pop) domain = domain_create("inferprof");
}

bool nvtx_attached(void) { return domain || range_push; }

void nvtx_push(const char *name) {
    struct attributes a = {
        .version = ATTRIBUTES_VERSION, .bytes = sizeof a, .text_type = TEXT_ASCII, .text = name
    };
    if (domain)
        domain_push(domain, &a);
    else if (range_push)
        range_push(name);
}

void nvtx_pop(void) {
    if (domain)
        domain_pop(domain);
    else if (range_pop)
        range_pop();
}
