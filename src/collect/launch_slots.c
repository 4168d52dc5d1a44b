#include "collect/launch_slots.h"

#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "collect/modules.h"
#include "collect/replays.h"

#define MAX_FUNCTIONS 4u /* different functions per kind of call: runtime, driver, copies of either */

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOBAL_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOBAL_DATA R_AARCH64_GLOB_DAT
#else
#define JUMP_SLOT UINT32_MAX
#define GLOBAL_DATA UINT32_MAX
#endif

/* ---- the functions that slots refer to; `i` is the number of the function that was in the slot */

typedef int (*launch_function)(void *exec, void *stream);
typedef int (*destroy_function)(void *exec);
typedef void (*any_function)(void); /* cast to its own type before it is called */
static _Atomic(any_function) launches[MAX_FUNCTIONS], destroys[MAX_FUNCTIONS];

#define PREVIOUS(type, list, i) ((type)atomic_load_explicit(&list[i], memory_order_relaxed))
#define FUNCTIONS(i)                                                 \
    static int launch_##i(void *exec, void *stream) {                \
        replays_launched(exec, i);                                   \
        return PREVIOUS(launch_function, launches, i)(exec, stream); \
    }                                                                \
    static int destroy_##i(void *exec) {                             \
        replays_graph_destroyed(exec);                               \
        return PREVIOUS(destroy_function, destroys, i)(exec);        \
    }
FUNCTIONS(0)
FUNCTIONS(1)
FUNCTIONS(2)
FUNCTIONS(3)

#define ALL(kind) \
    { (any_function) kind##_0, (any_function)kind##_1, (any_function)kind##_2, (any_function)kind##_3 }
static const any_function our_launches[MAX_FUNCTIONS] = ALL(launch);
static const any_function our_destroys[MAX_FUNCTIONS] = ALL(destroy);

static bool is_ours(uintptr_t address) {
    for (unsigned i = 0; i < MAX_FUNCTIONS; i++)
        if (address == (uintptr_t)our_launches[i] || address == (uintptr_t)our_destroys[i]) return true;
    return false;
}

/* Returns the address of our function that calls `previous`. Returns 0 if all of them call others. */
static uintptr_t our_function(bool launches_graphs, uintptr_t previous) {
    _Atomic(any_function) *list = launches_graphs ? launches : destroys;
    for (unsigned i = 0; i < MAX_FUNCTIONS; i++) {
        any_function now = atomic_load(&list[i]);
        if (!now) atomic_store(&list[i], (any_function)previous);
        if (!now || (uintptr_t)now == previous)
            return (uintptr_t)(launches_graphs ? our_launches : our_destroys)[i];
    }
    return 0;
}

static const struct call_name {
    const char *name;
    bool launches;
} names[] = {
    { "cudaGraphLaunch", true },    { "cudaGraphLaunch_ptsz", true },  { "cuGraphLaunch", true },
    { "cuGraphLaunch_ptsz", true }, { "cudaGraphExecDestroy", false }, { "cuGraphExecDestroy", false },
};

/* ---- a loaded module */

struct module {
    const struct dl_phdr_info *info;
    uintptr_t symbols, texts; /* addresses of the tables */
    size_t text_bytes;
    uintptr_t plt, data;                    /* relocations of calls, and the others */
    size_t plt_bytes, data_bytes, relative; /* relative: number of leading entries of `data` without symbol */
    bool rela;                              /* relocations are of type Rela */
};

/* Returns true if the bytes are in a loaded segment with all of these flags (PF_R, PF_W). */
static bool is_loaded(const struct dl_phdr_info *info, uintptr_t at, size_t bytes, unsigned flags) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags && at >= start && bytes <= p->p_memsz &&
            at - start <= p->p_memsz - bytes)
            return true;
    }
    return false;
}

/* The dynamic linker has added the module's address to the pointers of its dynamic section, except in
 * read-only sections such as that of the vDSO. */
static uintptr_t dynamic_pointer(const struct dl_phdr_info *info, uintptr_t p) {
    return p < info->dlpi_addr ? info->dlpi_addr + p : p;
}

static void read_dynamic(struct module *m, const ElfW(Dyn) * d, size_t n) {
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
        uintptr_t p = dynamic_pointer(m->info, d[i].d_un.d_ptr);
        switch (d[i].d_tag) {
        case DT_SYMTAB: m->symbols = p; break;
        case DT_STRTAB: m->texts = p; break;
        case DT_STRSZ: m->text_bytes = d[i].d_un.d_val; break;
        case DT_JMPREL: m->plt = p; break;
        case DT_PLTRELSZ: m->plt_bytes = d[i].d_un.d_val; break;
        case DT_PLTREL: m->rela = d[i].d_un.d_val == DT_RELA; break;
        case DT_RELA: m->data = p; break;
        case DT_RELASZ: m->data_bytes = d[i].d_un.d_val; break;
        case DT_RELACOUNT: m->relative = d[i].d_un.d_val; break;
        default: break;
        }
    }
}

static bool read_module(struct dl_phdr_info *info, struct module *m) {
    *m = (struct module){ .info = info, .rela = true };
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_DYNAMIC && is_loaded(info, at, p->p_memsz, PF_R))
            read_dynamic(m, (const ElfW(Dyn) *)at, p->p_memsz / sizeof(ElfW(Dyn)));
    }
    return m->symbols && m->texts && m->rela && is_loaded(info, m->texts, m->text_bytes, PF_R);
}

/* Returns the name of an undefined symbol; NULL: it is defined here, or out of bounds. */
static const char *imported_name(const struct module *m, size_t number) {
    const ElfW(Sym) *s = (const ElfW(Sym) *)m->symbols + number;
    if (!number || !is_loaded(m->info, (uintptr_t)s, sizeof *s, PF_R) || s->st_shndx != SHN_UNDEF)
        return NULL;
    return s->st_name < m->text_bytes ? (const char *)m->texts + s->st_name : NULL;
}

static const struct call_name *find_call(const struct module *m, const char *text) {
    size_t room = m->text_bytes - (size_t)(text - (const char *)m->texts);
    if (room < 2 || text[0] != 'c' || text[1] != 'u') return NULL;
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (strlen(names[i].name) < room && strcmp(text, names[i].name) == 0) return &names[i];
    return NULL;
}

/* ---- replacing */

/* Returns true if the page was made read-only after the module was loaded. */
static bool is_relro(const struct dl_phdr_info *info, uintptr_t page, size_t page_bytes) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type == PT_GNU_RELRO && page >= start / page_bytes * page_bytes &&
            page < end / page_bytes * page_bytes)
            return true;
    }
    return false;
}

/* Returns true if the bytes can be written. An atomic OR with 0 in the Linux kernel fails on a read-only page
 * and changes nothing. */
static bool is_writable(uintptr_t at) {
    static uint32_t nobody_waits;
    long rc = syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, at,
                      FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0));
    return rc >= 0;
}

/* Threads may call through the slot at any time: the store is a single aligned one. If a page that should be
 * read-only is still writable, the dynamic linker is loading the module, and its pages must not change. */
static bool store_slot(const struct dl_phdr_info *info, uintptr_t slot, uintptr_t value) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t page = slot / page_bytes * page_bytes;
    bool relro = is_relro(info, page, page_bytes), writable = is_writable(slot);
    if (relro == writable) return false;
    if (relro && mprotect((void *)page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
    atomic_store((_Atomic uintptr_t *)slot, value);
    if (relro) mprotect((void *)page, page_bytes, PROT_READ);
    return true;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *at) {
    (void)size;
    return is_loaded(info, *(const uintptr_t *)at, 1, PF_R | PF_X);
}

/* A slot that was not used yet refers to its own module: the first call resolves it. While a module is being
 * loaded, the slot contains an offset. */
static void replace_slot(const struct module *m, uintptr_t slot, const struct call_name *call,
                         struct launch_slots *out) {
    if (slot % sizeof(uintptr_t) || !is_loaded(m->info, slot, sizeof(uintptr_t), PF_R | PF_W)) return;
    uintptr_t now = atomic_load((_Atomic uintptr_t *)slot);
    if (is_loaded(m->info, now, 1, PF_R) || !dl_iterate_phdr(find_code, &now)) return;
    bool done = is_ours(now);
    if (!done) {
        uintptr_t ours = our_function(call->launches, now);
        done = ours && store_slot(m->info, slot, ours);
    }
    if (call->launches) *(done ? &out->replaced : &out->refused) += 1;
}

static void visit_table(const struct module *m, uintptr_t table, size_t bytes, size_t from,
                        struct launch_slots *out) {
    const ElfW(Rela) *r = (const ElfW(Rela) *)table;
    if (!table || !is_loaded(m->info, table, bytes, PF_R)) return;
    for (size_t i = from; i < bytes / sizeof *r; i++) {
        uint32_t type = (uint32_t)ELF64_R_TYPE(r[i].r_info);
        if (type != JUMP_SLOT && type != GLOBAL_DATA) continue;
        const char *name = imported_name(m, ELF64_R_SYM(r[i].r_info));
        const struct call_name *call = name ? find_call(m, name) : NULL;
        if (call) replace_slot(m, m->info->dlpi_addr + r[i].r_offset, call, out);
    }
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *out) {
    struct module m;
    (void)size;
    if (!read_module(info, &m)) return 0;
    visit_table(&m, m.plt, m.plt_bytes, 0, out);
    visit_table(&m, m.data, m.data_bytes, m.relative, out);
    return 0;
}

bool launch_slots_replace(struct launch_slots *out) {
    *out = (struct launch_slots){ 0 };
    return modules_visit(visit_module, out);
}
