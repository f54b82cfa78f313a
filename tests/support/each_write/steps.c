/* Counts what the program does to files below some folders, and ends or stops it at one of these steps.
 *
 * Loaded before libc (LD_PRELOAD), it stands in for the functions that change files. Before each call of one is a step, after those
 * that write, rename or remove is another, and in the midst of a write a third, when half of it stands there.
 *
 * A system call that does not come by way of libc is not seen; tempfile renames so. What comes before it and what comes after is.
 *
 *   BELLJAR_STEPS        the file that each step is told to, a line each, and that counts them with its first eight bytes
 *   BELLJAR_STEPS_BELOW  the folders, with colons between them
 *   BELLJAR_STEPS_AT     the step, from 1; without, none
 *   BELLJAR_STEPS_SIGNAL the signal that is sent to this process then
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *below;
static unsigned long at;
static int with = SIGKILL;
static int told = -1;
static _Atomic unsigned long *steps;

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("BELLJAR_STEPS"), *number = getenv("BELLJAR_STEPS_AT"), *how = getenv("BELLJAR_STEPS_SIGNAL");
    below = getenv("BELLJAR_STEPS_BELOW");
    at = number ? strtoul(number, NULL, 10) : 0;
    with = how ? atoi(how) : SIGKILL;
    if (!file || !below)
        return;
    told = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_APPEND | O_CLOEXEC);
    void *page = told < 0 ? MAP_FAILED : mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED, told, 0);
    if (page == MAP_FAILED)
        abort();
    steps = page;
}

static int is_below(const char *path)
{
    for (const char *folder = below; steps && folder && *folder;) {
        size_t length = strcspn(folder, ":");
        if (!strncmp(path, folder, length) && (path[length] == '/' || !path[length]))
            return 1;
        folder += length + (folder[length] == ':');
    }
    return 0;
}

/* One step: the last one when its number has come. */
static void step(const char *what, const char *path)
{
    unsigned long number = atomic_fetch_add(steps, 1) + 1;
    char line[5000];
    int length = snprintf(line, sizeof line, "%lu %s %s\n", number, what, path);
    syscall(SYS_write, told, line, length);
    if (number == at)
        syscall(SYS_kill, (pid_t)syscall(SYS_getpid), with);
}

/* The path of a descriptor; empty when it has none. */
static const char *of_descriptor(int fd, char *path, size_t room)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, room - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

/* The path of a name in a folder. */
static const char *in_folder(int dirfd, const char *name, char *path, size_t room)
{
    if (*name == '/' || dirfd == AT_FDCWD)
        return name;
    of_descriptor(dirfd, path, room);
    size_t length = strlen(path);
    snprintf(path + length, room - length, "/%s", name);
    return path;
}

static void before(const char *what, int dirfd, const char *name)
{
    int error = errno;
    char path[4200];
    const char *whole = steps ? in_folder(dirfd, name, path, sizeof path) : "";
    if (is_below(whole))
        step(what, whole);
    errno = error;
}

static void before_fd(const char *what, int fd)
{
    int error = errno;
    char path[4200];
    if (steps && is_below(of_descriptor(fd, path, sizeof path)))
        step(what, path);
    errno = error;
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))

#define OPENAT(name)                                     \
    int name(int dirfd, const char *path, int flags, ...) \
    {                                                    \
        NEXT(name);                                      \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        mode_t mode = va_arg(rest, mode_t);              \
        va_end(rest);                                    \
        if (CHANGES(flags))                              \
            before("open", dirfd, path);                 \
        return next(dirfd, path, flags, mode);           \
    }
#define OPEN(name)                            \
    int name(const char *path, int flags, ...) \
    {                                         \
        NEXT(name);                           \
        va_list rest;                         \
        va_start(rest, flags);                \
        mode_t mode = va_arg(rest, mode_t);   \
        va_end(rest);                         \
        if (CHANGES(flags))                   \
            before("open", AT_FDCWD, path);   \
        return next(path, flags, mode);       \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *bytes, size_t count)
{
    NEXT(write);
    char path[4200];
    if (!steps || fd == told || !is_below(of_descriptor(fd, path, sizeof path)))
        return next(fd, bytes, count);
    step("write", path);
    size_t half = count / 2;
    ssize_t first = half ? next(fd, bytes, half) : 0;
    if (first < (ssize_t)half)
        return first;
    step("half-write", path);
    ssize_t second = next(fd, (const char *)bytes + half, count - half);
    step("written", path);
    return second < 0 ? (half ? first : second) : first + second;
}

/* What need not be followed by a step, since the next one comes before anything else is done to files. */
#define SIMPLE(what, name, dirfd, path, parameters, arguments) \
    int name parameters                                        \
    {                                                          \
        NEXT(name);                                            \
        before(what, dirfd, path);                             \
        return next arguments;                                 \
    }
#define FOLLOWED(what, name, dirfd, path, parameters, arguments) \
    int name parameters                                          \
    {                                                            \
        NEXT(name);                                              \
        before(what, dirfd, path);                               \
        int made = next arguments;                               \
        before(what "-done", dirfd, path);                       \
        return made;                                             \
    }

SIMPLE("mkdir", mkdir, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
SIMPLE("mkdir", mkdirat, dirfd, path, (int dirfd, const char *path, mode_t mode), (dirfd, path, mode))
SIMPLE("chmod", chmod, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
FOLLOWED("rename", rename, AT_FDCWD, to, (const char *from, const char *to), (from, to))
FOLLOWED("rename", renameat, todir, to, (int fromdir, const char *from, int todir, const char *to), (fromdir, from, todir, to))
FOLLOWED("unlink", unlink, AT_FDCWD, path, (const char *path), (path))
FOLLOWED("unlink", unlinkat, dirfd, path, (int dirfd, const char *path, int flags), (dirfd, path, flags))
FOLLOWED("rmdir", rmdir, AT_FDCWD, path, (const char *path), (path))
FOLLOWED("link", linkat, todir, to, (int fromdir, const char *from, int todir, const char *to, int flags),
         (fromdir, from, todir, to, flags))

#define OF_FD(what, name, parameters, arguments) \
    int name parameters                          \
    {                                            \
        NEXT(name);                              \
        before_fd(what, fd);                     \
        return next arguments;                   \
    }
OF_FD("chmod", fchmod, (int fd, mode_t mode), (fd, mode))
OF_FD("sync", fsync, (int fd), (fd))
OF_FD("sync", fdatasync, (int fd), (fd))
OF_FD("times", futimens, (int fd, const struct timespec times[2]), (fd, times))
OF_FD("truncate", ftruncate, (int fd, off_t length), (fd, length))
OF_FD("truncate", ftruncate64, (int fd, off64_t length), (fd, length))

#define OTHER_WRITE(name, parameters, arguments) \
    ssize_t name parameters                      \
    {                                            \
        NEXT(name);                              \
        before_fd("write", fd);                  \
        ssize_t made = next arguments;           \
        before_fd("written", fd);                \
        return made;                             \
    }
OTHER_WRITE(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OTHER_WRITE(pwrite64, (int fd, const void *bytes, size_t count, off64_t place), (fd, bytes, count, place))
OTHER_WRITE(copy_file_range, (int from, off64_t *begin, int fd, off64_t *place, size_t count, unsigned flags),
            (from, begin, fd, place, count, flags))
OTHER_WRITE(sendfile64, (int fd, int from, off64_t *begin, size_t count), (fd, from, begin, count))
