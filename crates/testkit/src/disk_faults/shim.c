/* Lets writes to chosen files fail, and syncs fail or hang: preloaded into a process. Before each call it looks into the
 * folder PARLOR_TEST_FAULTS for a file that has the name of a fault and contains the name of the file to fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_injected(int fd, const char *fault) {
    const char *folder = getenv("PARLOR_TEST_FAULTS");
    char path[4096], link[64], target[4096], file[256];
    ssize_t length;
    int control;
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, fault);
    control = open(path, O_RDONLY | O_CLOEXEC);
    if (control < 0) return 0;
    file[0] = '/';
    length = read(control, file + 1, sizeof file - 2);
    close(control);
    if (length <= 0) return 0;
    file[length + 1] = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    return strstr(target, file) && !strstr(target, "-shm");
}

/* The next function of this name, if the fault is not injected. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(fault, error) if (is_injected(fd, fault)) { errno = error; return -1; }
#define HANG_WHILE(fault) while (is_injected(fd, fault)) usleep(2000);

ssize_t write(int fd, const void *buf, size_t count) {
    FAIL_IF("full", ENOSPC)
    return NEXT(write)(fd, buf, count);
}
ssize_t pwrite(int fd, const void *buf, size_t count, off_t at) {
    FAIL_IF("full", ENOSPC)
    return NEXT(pwrite)(fd, buf, count, at);
}
ssize_t pwrite64(int fd, const void *buf, size_t count, off64_t at) {
    FAIL_IF("full", ENOSPC)
    return NEXT(pwrite64)(fd, buf, count, at);
}
int ftruncate(int fd, off_t length) {
    FAIL_IF("full", ENOSPC)
    return NEXT(ftruncate)(fd, length);
}
int ftruncate64(int fd, off64_t length) {
    FAIL_IF("full", ENOSPC)
    return NEXT(ftruncate64)(fd, length);
}
int fsync(int fd) {
    HANG_WHILE("hanging-sync")
    FAIL_IF("failing-sync", EIO)
    return NEXT(fsync)(fd);
}
int fdatasync(int fd) {
    HANG_WHILE("hanging-sync")
    FAIL_IF("failing-sync", EIO)
    return NEXT(fdatasync)(fd);
}
