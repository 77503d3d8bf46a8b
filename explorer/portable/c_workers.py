"""Persistent workers of an exported program: threads that wait for runs, and for each other.

As in `runtime.device_program`, each unit publishes `epoch * stride + step`, every barrier begins an
epoch, and a thread may carry any unit: a unit that waits returns, and goes on from the same row
later. So a run ends however few of the threads get a core.
"""

from __future__ import annotations

from textwrap import indent

from explorer.portable.c_text import filled
from explorer.portable.portable_program import PortableProgram

HEADER = """
/* A run is divided into @N parts. The caller of @P_run and threads - 1 others run them; the others
   wait for runs between @P_start and @P_stop.

   Their memory is the caller's: @P_workers_bytes() bytes, a multiple of 128.
   @P_start takes 1 to @N threads; it returns 0, or the error number of pthread_create. */
#define @U_THREADS @N
typedef struct @P_workers @P_workers;

size_t @P_workers_bytes(void);
int @P_start(@P_workers *workers, int threads);
void @P_stop(@P_workers *workers);
"""

SOURCE = """#define UNITS @N
#define CHECKS_BEFORE_RETURN 500
#define CHECKS_BEFORE_YIELD 50
#define CHECKS_BEFORE_SLEEP 20000

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

enum { ENDED, FREE, CARRIED };

/* A unit's published step and its carrier, alone on two cache lines; then its position. */
typedef struct {
    _Alignas(128) _Atomic int64_t step;
    _Atomic int carrier;
    _Alignas(128) int64_t epoch;
    int row;
    int begun;
    _Atomic int awaited;
    _Atomic int64_t least;
} part;

typedef struct {
    @P_workers *workers;
    pthread_t thread;
    int number;
} member;

struct @P_workers {
    part parts[UNITS];
    _Alignas(128) _Atomic int64_t turn;
    _Alignas(128) _Atomic int ended;
    _Atomic int places;
    _Atomic int fault;
    _Atomic int stopped;
    int launch;
    int started;
    const void *const *inputs;
    void *const *outputs;
    void *arena;
    pthread_mutex_t mutex;
    pthread_cond_t called;
    member members[UNITS];
};

static void publish(@P_workers *w, int place, int64_t value)
{
    atomic_store_explicit(&w->parts[place].step, value, memory_order_release);
}

/* Return 1 if a unit has published a step; wait for a moment if another thread carries it. */
static int reached(@P_workers *w, part *own, int place, int64_t least)
{
    part *const other = &w->parts[place];
    for (int n = 0; n < CHECKS_BEFORE_RETURN; n++) {
        if (atomic_load_explicit(&other->step, memory_order_acquire) >= least)
            return 1;
        if (atomic_load_explicit(&other->carrier, memory_order_relaxed) != CARRIED)
            break;
        PAUSE();
    }
    if (atomic_load_explicit(&other->step, memory_order_acquire) >= least)
        return 1;
    atomic_store_explicit(&own->awaited, place, memory_order_relaxed);
    atomic_store_explicit(&own->least, least, memory_order_relaxed);
    return 0;
}

/* Return 1 if all units of a launch have come to a barrier, which begins the epoch of `value`. */
static int met(@P_workers *w, part *own, int place, int units, int64_t value)
{
    if (atomic_load_explicit(&own->step, memory_order_relaxed) < value)
        publish(w, place, value);
    for (int other = 0; other < units; other++)
        if (!reached(w, own, other, value))
            return 0;
    return 1;
}

static void copy_part(void *target, const void *source, int64_t bytes, int unit, int units)
{
    int64_t lines = (bytes + 63) / 64, first = lines * unit / units * 64;
    int64_t last = lines * (unit + 1) / units * 64;
    last = last < bytes ? last : bytes;
    if (last > first)
        memmove((char *)target + first, (const char *)source + first, (size_t)(last - first));
}

static int has_fault(@P_workers *w)
{
    return atomic_load(&w->fault);
}

static void set_fault(@P_workers *w, int fault)
{
    atomic_store(&w->fault, fault);
}
"""

RUN = """/* Carry a unit to its end, or to a wait; return 1 at its end. */
static int carry(@P_workers *w, int place)
{
    part *const own = &w->parts[place];
    const int unit = units_of_launches[w->launch][place];
    int64_t *const args = (int64_t *)w->arena + unit * @T;
    int64_t *const slot = args + @A;
    (void)copy_part, (void)set_fault, (void)has_fault, (void)met;
    if (!own->begun) {
        const void *const *inputs = w->inputs;
        void *const *outputs = w->outputs;
        void *arena = w->arena;
        int64_t bases[@B] = {0};
        (void)inputs, (void)outputs;
@S        bases[3] += unit * @C;
        if (w->launch == 0)
            fill(args, argument_places, @A, bases);
        own->begun = 1;
        switch (w->launch) {
@F        default:
            break;
        }
    }
    switch (w->launch * UNITS + place) {
@L    default:
        return 1;
    }
}

/* Carry units that no other thread carries, from its own on, until all have ended. */
static void carry_all(@P_workers *w, int number)
{
    for (int idle = 0;; idle++) {
        const int places = atomic_load_explicit(&w->places, memory_order_acquire);
        int open = 0, went = 0;
        for (int n = 0; n < places && !went; n++) {
            const int place = (number + n) % places;
            part *const p = &w->parts[place];
            int carrier = atomic_load_explicit(&p->carrier, memory_order_acquire);
            open += carrier != ENDED;
            if (carrier != FREE)
                continue;
            const int awaited = atomic_load_explicit(&p->awaited, memory_order_relaxed);
            const int64_t least = atomic_load_explicit(&p->least, memory_order_relaxed);
            if (atomic_load_explicit(&w->parts[awaited].step, memory_order_acquire) < least)
                continue;
            if (!atomic_compare_exchange_strong(&p->carrier, &carrier, CARRIED))
                continue;
            went = 1;
            if (carry(w, place)) {
                atomic_store_explicit(&p->carrier, ENDED, memory_order_release);
                atomic_fetch_add(&w->ended, 1);
            } else {
                atomic_store_explicit(&p->carrier, FREE, memory_order_release);
            }
        }
        if (went)
            idle = 0;
        else if (!open)
            return;
        else if (idle < CHECKS_BEFORE_YIELD)
            PAUSE();
        else
            sched_yield();
    }
}

static void *work(void *argument)
{
    member *const m = argument;
    @P_workers *const w = m->workers;
    for (int64_t turn = 0;;) {
        int64_t next = turn;
        for (int n = 0; next == turn && n < CHECKS_BEFORE_SLEEP; n++) {
            PAUSE();
            next = atomic_load_explicit(&w->turn, memory_order_acquire);
        }
        if (next == turn) {
            pthread_mutex_lock(&w->mutex);
            while ((next = atomic_load(&w->turn)) == turn)
                pthread_cond_wait(&w->called, &w->mutex);
            pthread_mutex_unlock(&w->mutex);
        }
        turn = next;
        if (atomic_load(&w->stopped))
            return NULL;
        carry_all(w, m->number);
    }
}

static void call(@P_workers *w)
{
    pthread_mutex_lock(&w->mutex);
    atomic_fetch_add(&w->turn, 1);
    pthread_cond_broadcast(&w->called);
    pthread_mutex_unlock(&w->mutex);
}

size_t @P_workers_bytes(void)
{
    return sizeof(@P_workers);
}

int @P_start(@P_workers *workers, int threads)
{
    memset(workers, 0, sizeof(*workers));
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->called, NULL);
    for (int number = 1; number < threads && number < UNITS; number++) {
        member *const m = &workers->members[number];
        m->workers = workers;
        m->number = number;
        int error = pthread_create(&m->thread, NULL, work, m);
        if (error) {
            @P_stop(workers);
            return error;
        }
        workers->started = number;
    }
    return 0;
}

void @P_stop(@P_workers *workers)
{
    atomic_store(&workers->stopped, 1);
    call(workers);
    for (int number = 1; number <= workers->started; number++)
        pthread_join(workers->members[number].thread, NULL);
    pthread_cond_destroy(&workers->called);
    pthread_mutex_destroy(&workers->mutex);
}

int @P_run(const void *const *inputs, void *const *outputs, void *arena, @P_workers *workers)
{
    @P_workers *const w = workers;
    w->inputs = inputs;
    w->outputs = outputs;
    w->arena = arena;
    atomic_store(&w->fault, 0);
    for (int launch = 0; launch < LAUNCHES && !has_fault(w); launch++) {
        const int places = places_of_launches[launch];
        w->launch = launch;
        atomic_store(&w->ended, 0);
        for (int place = 0; place < places; place++) {
            part *const p = &w->parts[place];
            p->epoch = p->row = p->begun = 0;
            atomic_store_explicit(&p->step, 0, memory_order_relaxed);
            atomic_store_explicit(&p->awaited, 0, memory_order_relaxed);
            atomic_store_explicit(&p->least, 0, memory_order_relaxed);
        }
        atomic_store(&w->places, places);
        for (int place = 0; place < places; place++)
            atomic_store_explicit(&w->parts[place].carrier, FREE, memory_order_release);
        if (places > 1 && w->started)
            call(w);
        while (atomic_load(&w->ended) < places)
            carry_all(w, 0);
    }
@K    return has_fault(w);
}
"""


def workers_header(prefix: str, units: int) -> str:
    """Return the declarations of the workers."""
    return filled(HEADER, {"P": prefix, "N": str(units), "U": prefix.upper()})


def workers_source(prefix: str, units: int) -> str:
    """Return the workers' data, their waits and their barriers."""
    return filled(SOURCE, {"P": prefix, "N": str(units)})


def run_units(
    prefix: str,
    program: PortableProgram,
    bases: int,
    set_bases: str,
    copies: str,
    arguments: int,
    table_words: int,
    scratch: str,
) -> str:
    """Return the functions that run a program on all units, and that start and stop them.

    `set_bases` and `copies` are statements; `scratch` is the bytes of a unit's own in C.
    """
    copied = ""
    if copies:
        copied = (
            f"    if (!has_fault(w)) {{\n        int64_t bases[{bases}] = {{0}};\n"
            f"{indent(set_bases + copies, '    ')}    }}\n"
        )
    begin, cases = _launches(program)
    words = {"B": str(bases), "A": str(arguments), "T": str(table_words), "C": scratch}
    words |= {"P": prefix, "S": indent(set_bases, "    "), "F": begin, "L": cases, "K": copied}
    return _tables(program) + filled(RUN, words)


def _tables(program: PortableProgram) -> str:
    """Return the tables of the units that take part in each launch."""
    launches = [launch.units for launch in program.launches] or [(0,)]
    rows = ", ".join(f"{{{', '.join(map(str, units))}}}" for units in launches)
    places = ", ".join(str(len(units)) for units in launches)
    return f"""#define LAUNCHES {len(program.launches)}
static const int places_of_launches[] = {{{places}}};
static const int units_of_launches[][UNITS] = {{{rows}}};

"""


def _launches(program: PortableProgram) -> tuple[str, str]:
    """Return the cases that begin each launch, and those that run each of its units."""
    begin, cases = [], []
    for n, launch in enumerate(program.launches):
        slots, registers = len(launch.slots), launch.registers
        begin.append(
            f"        case {n}:\n"
            f"            fill(slot, slot_places_{n}, {slots}, bases);\n"
            f"            memset(slot + {slots}, 0, {8 * (registers + launch.stack)});\n"
            "            break;\n"
        )
        tables = f"slot, slot + {slots}, slot + {slots + registers}"
        cases += [
            f"    case {n * program.units + place}:\n"
            f"        return launch_{n}_{place}(args, {tables}, w, own);\n"
            for place in range(len(launch.units))
        ]
    return "".join(begin), "".join(cases)
