/* A library for LD_PRELOAD that counts memory below PyTorch, for tests/scopes/foreign/test_torch_figures.py.
 *
 * It counts each `posix_memalign` of libc10.so until its `free`: the memory of CPU tensors. It counts the blocks of
 * 4 KiB and more that all other code takes from the C library separately.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { OF_TENSORS, OF_OTHERS, KINDS };
enum { SLOTS = 1 << 20, LEAST_OF_OTHERS = 4096, CALLERS = 64 };

struct block { void *address; size_t nbytes; int kind; };
static struct block blocks[SLOTS];
static size_t live[KINDS], peak[KINDS], allocated[KINDS], count[KINDS];
static void *known_callers[CALLERS];
static int callers_in_torch[CALLERS], known;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(void *address) {
    return (size_t)(((uint64_t)(uintptr_t)address >> 4) * 0x9E3779B97F4A7C15ull >> 32) & (SLOTS - 1);
}

static void add(void *address, size_t nbytes, int kind) {
    if (address == NULL || (kind == OF_OTHERS && nbytes < LEAST_OF_OTHERS))
        return;
    pthread_mutex_lock(&mutex);
    size_t i = place_of(address);
    while (blocks[i].address != NULL)
        i = (i + 1) & (SLOTS - 1);
    blocks[i] = (struct block){address, nbytes, kind};
    live[kind] += nbytes;
    allocated[kind] += nbytes;
    ++count[kind];
    if (live[kind] > peak[kind])
        peak[kind] = live[kind];
    pthread_mutex_unlock(&mutex);
}

static void take(void *address) {
    if (address == NULL)
        return;
    pthread_mutex_lock(&mutex);
    size_t hole = place_of(address);
    while (blocks[hole].address != NULL && blocks[hole].address != address)
        hole = (hole + 1) & (SLOTS - 1);
    if (blocks[hole].address != NULL) {
        live[blocks[hole].kind] -= blocks[hole].nbytes;
        for (size_t i = (hole + 1) & (SLOTS - 1); blocks[i].address != NULL; i = (i + 1) & (SLOTS - 1))
            if (((i - place_of(blocks[i].address)) & (SLOTS - 1)) >= ((i - hole) & (SLOTS - 1))) {
                blocks[hole] = blocks[i];
                hole = i;
            }
        blocks[hole].address = NULL;
    }
    pthread_mutex_unlock(&mutex);
}

/* Returns whether the code at `caller` is in libc10.so. */
static int is_in_torch(void *caller) {
    for (int i = 0; i < known; ++i)
        if (known_callers[i] == caller)
            return callers_in_torch[i];
    Dl_info info;
    const int found = dladdr(caller, &info) && info.dli_fname != NULL && strstr(info.dli_fname, "libc10.so") != NULL;
    pthread_mutex_lock(&mutex);
    if (known < CALLERS) {
        known_callers[known] = caller;
        callers_in_torch[known] = found;
        ++known;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

int posix_memalign(void **found, size_t alignment, size_t nbytes) {
    void *made = __libc_memalign(alignment, nbytes);
    if (made == NULL)
        return ENOMEM;
    add(made, nbytes, is_in_torch(__builtin_return_address(0)) ? OF_TENSORS : OF_OTHERS);
    *found = made;
    return 0;
}

void *memalign(size_t alignment, size_t nbytes) {
    void *made = __libc_memalign(alignment, nbytes);
    add(made, nbytes, OF_OTHERS);
    return made;
}

void *aligned_alloc(size_t alignment, size_t nbytes) { return memalign(alignment, nbytes); }

void *malloc(size_t nbytes) {
    void *made = __libc_malloc(nbytes);
    add(made, nbytes, OF_OTHERS);
    return made;
}

void *calloc(size_t number, size_t nbytes) {
    void *made = __libc_calloc(number, nbytes);
    add(made, number * nbytes, OF_OTHERS);
    return made;
}

void *realloc(void *old, size_t nbytes) {
    take(old);
    void *made = __libc_realloc(old, nbytes);
    add(made, nbytes, OF_OTHERS);
    return made;
}

void free(void *address) {
    take(address);
    __libc_free(address);
}

/* Live bytes, peak, all bytes and number of allocations: of tensors, then of others. */
void interposed_figures(size_t found[4 * KINDS]) {
    pthread_mutex_lock(&mutex);
    for (int kind = 0; kind < KINDS; ++kind) {
        found[4 * kind] = live[kind];
        found[4 * kind + 1] = peak[kind];
        found[4 * kind + 2] = allocated[kind];
        found[4 * kind + 3] = count[kind];
    }
    pthread_mutex_unlock(&mutex);
}

void interposed_reset_peak(void) {
    pthread_mutex_lock(&mutex);
    for (int kind = 0; kind < KINDS; ++kind)
        peak[kind] = live[kind];
    pthread_mutex_unlock(&mutex);
}

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(before_fork, after_fork, after_fork); }
