#include "engine/record/nvtx.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The interface of NVTX 3 between a program and an injected tool. The tool's entry point receives a
 * function that returns export tables by number. Table 1 ("callbacks") gives the tool arrays of slots, one
 * array per module; a slot is the address of one of our function pointers, which the tool may set. Table 3
 * ("version info") contains the version. Module 1 ("core") has 16 slots, of which the first is unused. */
enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, MODULE_CORE = 1, CORE_SLOTS = 16 };
enum { CORE_RANGE_PUSH_A = 9, CORE_RANGE_POP = 11 };

static int (*range_push)(const char *name);
static int (*range_pop)(void);

typedef void (*any_fn)(void);
static any_fn unused[CORE_SLOTS];
static any_fn *core_slots[CORE_SLOTS + 1];

static int get_module_table(uint32_t module, any_fn ***out_table, uint32_t *out_bytes) {
    if (module != MODULE_CORE) return 0;
    if (out_bytes) *out_bytes = CORE_SLOTS;
    if (out_table) *out_table = core_slots;
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
    for (int i = 1; i < CORE_SLOTS; i++) core_slots[i] = &unused[i];
    core_slots[CORE_RANGE_PUSH_A] = (any_fn *)&range_push;
    core_slots[CORE_RANGE_POP] = (any_fn *)&range_pop;
    void *library = dlopen(path, RTLD_LAZY);
    int (*init)(const void *(*)(uint32_t)) = NULL;
    if (library) *(void **)&init = dlsym(library, "InitializeInjectionNvtx2");
    if (init) init(export_table);
}

bool nvtx_attached(void) { return range_push != NULL; }

void nvtx_push(const char *name) {
    if (range_push) range_push(name);
}

void nvtx_pop(void) {
    if (range_pop) range_pop();
}
