/* A library as they come: an engine with a buffer of its own, which nobody may enter while somebody is inside, and which belongs to the thread that has made it. It answers a hash that
 * anybody can compute anew, or says that it has been entered twice. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    volatile int inside;
    volatile uint64_t state;
    pthread_t owner;
} engine;

engine *fragile_new(void) {
    engine *e = calloc(1, sizeof *e);
    e->owner = pthread_self();
    return e;
}

/* -1: it has been entered twice. */
int fragile_hash(engine *e, uint64_t text, uint64_t *answer) {
    int clash = e->inside;
    e->inside = 1;
    e->state = text;
    for (int i = 0; i < 64; i++) {
        uint64_t s = e->state;
        s ^= s >> 31;
        s *= 0x9E3779B97F4A7C15ull;
        e->state = s + (uint64_t)i;
    }
    *answer = e->state;
    e->inside = 0;
    return clash ? -1 : 0;
}

int fragile_is_owner(engine *e) { return pthread_equal(e->owner, pthread_self()) != 0; }

void fragile_free(engine *e) { free(e); }
