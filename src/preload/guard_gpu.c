// SPDX-License-Identifier: Apache-2.0
/*
 * Live guard on GPUs: cudaMalloc and hipMalloc are served from virtual-memory mappings that end at a
 * hole. Mappings are kept by size and reused without unmapping, so that a training step whose sizes
 * have been seen costs no driver call.
 *
 * Reuse and order: while the whole process uses one stream, what is freed may be handed out at once,
 * because the work that still reads it stands in front of the work that will write it. Once a second
 * stream is seen, freed blocks wait until the device has been synchronised.
 *
 * Whether a hole faults on this device was proven before the process was started (assay run does it in
 * a process of its own: the fault costs the context).
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include <sys/mman.h>

#include "preload/gpu.h"

enum {
    CLASSES = 512, /* slots of 1..CLASSES-1 granules have a list each; class 0 holds the rest */
    DEVICES = 16,
    TRIES = 16,
    MEMORY_DEVICE = 1, /* CU_MEM_LOCATION_TYPE_DEVICE, hipMemLocationTypeDevice */
    MEMORY_PINNED = 1, /* CU_MEM_ALLOCATION_TYPE_PINNED, hipMemAllocationTypePinned */
    ACCESS_READ_WRITE = 3,
};

static const uint64_t arena_bytes = UINT64_C(1) << 40;

/* CUmemLocation, CUmemAllocationProp, CUmemAccessDesc of cuda.h; HIP's have the same layout. */
struct location {
    int type, id;
};

struct properties {
    int type, handle_types;
    struct location location;
    void *win32;
    unsigned char flags[8];
};

struct access {
    struct location location;
    int flags;
};

/* The names of one platform's functions. */
struct platform {
    const char *granularity, *reserve, *create, *map, *set_access, *device, *synchronise;
};

static const struct platform platforms[] = {
    [GPU_CUDA] = {"cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemCreate", "cuMemMap",
                  "cuMemSetAccess", "cudaGetDevice", "cudaDeviceSynchronize"},
    [GPU_HIP] = {"hipMemGetAllocationGranularity", "hipMemAddressReserve", "hipMemCreate",
                 "hipMemMap", "hipMemSetAccess", "hipGetDevice", "hipDeviceSynchronize"},
};

typedef int (*granularity_function)(size_t *, const struct properties *, int);
typedef int (*reserve_function)(uint64_t *, size_t, size_t, uint64_t, unsigned long long);
typedef int (*create_function)(uint64_t *, size_t, const struct properties *, unsigned long long);
typedef int (*map_function)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
typedef int (*access_function)(uint64_t, size_t, const struct access *, size_t);
typedef int (*device_function)(int *);
typedef int (*synchronise_function)(void);

struct slot {
    uint64_t size;  /* asked for; 0: free */
    uint64_t start; /* what the program got */
    uint32_t granules;
    uint32_t next; /* list: number of the first granule + 1 */
    uint32_t of;   /* of the granule that holds `start`: first granule of its slot + 1 */
    uint32_t device;
};

static struct {
    enum gpu_platform platform;
    uint64_t base, granule, granules, used;
    uint32_t lists[DEVICES][CLASSES];
    uint32_t pending[DEVICES]; /* freed, and perhaps still read by work in flight */
    struct slot *slots;
    create_function create;
    map_function map;
    access_function set_access;
    device_function device;
    synchronise_function synchronise;
    _Atomic int lock;
    _Atomic int state; /* 0 untried, 1 ready, 2 refused */
    _Atomic uint64_t stream;
    _Atomic int streams; /* 0, 1, 2: more than one */
} pool;

static void lock(void)
{
    int open = 0;
    while (!atomic_compare_exchange_weak(&pool.lock, &open, 1)) {
        open = 0;
        sched_yield();
    }
}

static void unlock(void)
{
    atomic_store(&pool.lock, 0);
}

void gpu_guard_stream(uint64_t stream)
{
    if (settings.gpu_guard && atomic_load_explicit(&pool.streams, memory_order_relaxed) < 2) {
        int none = 0;
        if (atomic_compare_exchange_strong(&pool.streams, &none, 1)) {
            atomic_store(&pool.stream, stream);
        } else if (atomic_load(&pool.stream) != stream) {
            atomic_store(&pool.streams, 2);
        }
    }
}

static struct properties properties_of(int device)
{
    return (struct properties){.type = MEMORY_PINNED, .location = {MEMORY_DEVICE, device}};
}

/* The driver is not in the scope of whoever calls the runtime: it was opened by the runtime itself. */
static void *find(enum gpu_platform which, const char *name, uint64_t caller)
{
    static const char *const files[][4] = {
        [GPU_CUDA] = {"libcuda.so.1", NULL},
        [GPU_HIP] = {"libamdhip64.so.7", "libamdhip64.so.6",
                     NULL}, /* HIP 5 lays the records out otherwise */
    };
    void *f = optional_symbol(name, caller);
    for (int i = 0; f == NULL && files[which][i] != NULL; i++) {
        void *handle = dlopen(files[which][i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle != NULL) {
            f = raw_dlsym(handle, name);
            dlclose(handle);
        }
    }
    return f;
}

static bool start(enum gpu_platform which, uint64_t caller)
{
    const struct platform *p = &platforms[which];
    granularity_function granularity = (granularity_function)find(which, p->granularity, caller);
    reserve_function reserve = (reserve_function)find(which, p->reserve, caller);
    pool.create = (create_function)find(which, p->create, caller);
    pool.map = (map_function)find(which, p->map, caller);
    pool.set_access = (access_function)find(which, p->set_access, caller);
    pool.device = (device_function)find(which, p->device, caller);
    pool.synchronise = (synchronise_function)find(which, p->synchronise, caller);
    if (granularity == NULL || reserve == NULL || pool.create == NULL || pool.map == NULL ||
        pool.set_access == NULL || pool.device == NULL || pool.synchronise == NULL) {
        return false;
    }
    int device = 0;
    size_t granule = 0;
    if (pool.device(&device) != 0 || device < 0 || device >= DEVICES) {
        return false;
    }
    struct properties prop = properties_of(device);
    if (granularity(&granule, &prop, 0) != 0 || granule < 4096 || granule > (size_t)1 << 30 ||
        (granule & (granule - 1)) != 0 || reserve(&pool.base, arena_bytes, granule, 0, 0) != 0) {
        return false;
    }
    pool.platform = which;
    pool.granule = granule;
    pool.granules = arena_bytes / granule;
    pool.used = 1;
    void *table = mmap(NULL, pool.granules * sizeof(struct slot), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        return false;
    }
    pool.slots = table;
    return true;
}

/* A mapping of its own with a hole behind it. */
static uint32_t cut(uint64_t granules, int device)
{
    if (pool.used + granules + 1 > pool.granules) {
        return 0;
    }
    uint64_t bytes = granules * pool.granule;
    uint64_t at = pool.base + pool.used * pool.granule;
    uint64_t handle = 0;
    struct properties prop = properties_of(device);
    struct access access = {{MEMORY_DEVICE, device}, ACCESS_READ_WRITE};
    if (pool.create(&handle, bytes, &prop, 0) != 0 || pool.map(at, bytes, 0, handle, 0) != 0 ||
        pool.set_access(at, bytes, &access, 1) != 0) {
        return 0;
    }
    uint32_t first = (uint32_t)pool.used;
    pool.slots[first].granules = (uint32_t)granules;
    pool.slots[first].device = (uint32_t)device;
    pool.used += granules + 1;
    return first;
}

static void push(uint32_t *list, uint32_t first)
{
    pool.slots[first].next = *list;
    *list = first + 1;
}

static uint32_t *list_of(const struct slot *s)
{
    return &pool.lists[s->device][s->granules < CLASSES ? s->granules : 0];
}

static uint32_t pop(int device, uint64_t granules)
{
    uint32_t *link = &pool.lists[device][granules < CLASSES ? granules : 0];
    for (int i = 0; *link != 0 && i < TRIES; i++) {
        uint32_t first = *link - 1;
        struct slot *s = &pool.slots[first];
        if (s->granules >= granules && s->granules <= granules + granules / 4) {
            *link = s->next;
            return first;
        }
        link = &s->next;
    }
    return 0;
}

/* After the device has come to rest, everything that was freed may be handed out. */
static void settle(int device)
{
    if (pool.pending[device] == 0 || pool.synchronise() != 0) {
        return;
    }
    while (pool.pending[device] != 0) {
        uint32_t first = pool.pending[device] - 1;
        pool.pending[device] = pool.slots[first].next;
        push(list_of(&pool.slots[first]), first);
    }
}

void *gpu_guard_take(enum gpu_platform which, size_t size, uint64_t caller)
{
    if (!settings.gpu_guard || size == 0 || size < settings.guard_min ||
        size > (UINT64_C(1) << 38) || atomic_load(&pool.state) == 2) {
        return NULL;
    }
    int kept = errno;
    void *taken = NULL;
    lock();
    if (pool.state == 0) {
        pool.state = start(which, caller) ? 1 : 2;
    }
    int device = 0;
    if (pool.state == 1 && pool.platform == which && pool.device(&device) == 0 && device >= 0 &&
        device < DEVICES) {
        uint64_t granules = (size + pool.granule - 1) / pool.granule;
        uint32_t first = pop(device, granules);
        if (first == 0) {
            settle(device);
            first = pop(device, granules);
        }
        if (first == 0) {
            first = cut(granules, device);
        }
        if (first != 0) {
            struct slot *s = &pool.slots[first];
            uint64_t end = pool.base + ((uint64_t)first + s->granules) * pool.granule;
            s->size = size;
            s->start = (end - size) & ~(uint64_t)(settings.gpu_alignment - 1);
            pool.slots[(s->start - pool.base) / pool.granule].of = first + 1;
            taken = (void *)(uintptr_t)s->start;
        }
    }
    uint64_t used = pool.used * pool.granule;
    unlock();
    struct record_header *h = record_file();
    if (taken != NULL && h != NULL) {
        atomic_fetch_add(&h->gpu_guarded_blocks, 1);
        atomic_store(&h->gpu_guarded_bytes, used);
    }
    errno = kept;
    return taken;
}

bool gpu_guard_give_back(void *p)
{
    uint64_t at = (uint64_t)(uintptr_t)p;
    if (!settings.gpu_guard || atomic_load(&pool.state) != 1 || at < pool.base ||
        at >= pool.base + arena_bytes) {
        return false;
    }
    bool ours = false;
    lock();
    uint32_t of = pool.slots[(at - pool.base) / pool.granule].of;
    if (of != 0 && pool.slots[of - 1].start == at && pool.slots[of - 1].size != 0) {
        struct slot *s = &pool.slots[of - 1];
        ours = true;
        s->size = 0;
        push(atomic_load(&pool.streams) < 2 ? list_of(s) : &pool.pending[s->device], of - 1);
    }
    unlock();
    return ours;
}

void gpu_guard_after_fork(void)
{
    atomic_store(&pool.lock, 0);
    atomic_store(&pool.state, 2); /* a context does not survive a fork */
}
