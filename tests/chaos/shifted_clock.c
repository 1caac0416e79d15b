/* The system's clock as a program sees it, ahead by the seconds in the file that CLOCK_AHEAD names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long none;
static volatile long long *ahead;

static long long seconds(void) {
    if (!ahead) {
        const char *name = getenv("CLOCK_AHEAD");
        int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
        void *found = file >= 0 ? mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
        ahead = found == MAP_FAILED ? &none : found;
        if (file >= 0) close(file);
    }
    return *ahead;
}

int clock_gettime(clockid_t which, struct timespec *out) {
    int failed = syscall(SYS_clock_gettime, which, out);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) out->tv_sec += seconds();
    return failed;
}

int gettimeofday(struct timeval *out, void *zone) {
    int failed = syscall(SYS_gettimeofday, out, zone);
    if (!failed && out) out->tv_sec += seconds();
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
