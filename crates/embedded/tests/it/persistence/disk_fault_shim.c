/* Makes writes to a store fail on demand: preloaded into a process, it looks for the files `full` and `fsync` in the
 * folder named by PARLOR_TEST_FAULTS each time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int wanted(int fd, const char *fault, int error) {
    const char *folder = getenv("PARLOR_TEST_FAULTS");
    char link[64], target[4096], control[4096];
    ssize_t length;
    if (!folder) return 0;
    snprintf(control, sizeof control, "%s/%s", folder, fault);
    if (access(control, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    if (!strstr(target, "/store.db") || strstr(target, "-shm")) return 0;
    errno = error;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *buf, size_t count) {
    return wanted(fd, "full", ENOSPC) ? -1 : NEXT(write)(fd, buf, count);
}
ssize_t pwrite(int fd, const void *buf, size_t count, off_t at) {
    return wanted(fd, "full", ENOSPC) ? -1 : NEXT(pwrite)(fd, buf, count, at);
}
ssize_t pwrite64(int fd, const void *buf, size_t count, off64_t at) {
    return wanted(fd, "full", ENOSPC) ? -1 : NEXT(pwrite64)(fd, buf, count, at);
}
int ftruncate(int fd, off_t length) {
    return wanted(fd, "full", ENOSPC) ? -1 : NEXT(ftruncate)(fd, length);
}
int ftruncate64(int fd, off64_t length) {
    return wanted(fd, "full", ENOSPC) ? -1 : NEXT(ftruncate64)(fd, length);
}
int fsync(int fd) {
    return wanted(fd, "fsync", EIO) ? -1 : NEXT(fsync)(fd);
}
int fdatasync(int fd) {
    return wanted(fd, "fsync", EIO) ? -1 : NEXT(fdatasync)(fd);
}
