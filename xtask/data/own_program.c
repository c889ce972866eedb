/* Lets a program that starts itself through /proc/self/exe do so below valgrind, where that is valgrind's own program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *own(const char *file) {
    const char *program = getenv("OWN_PROGRAM");
    return program && strcmp(file, "/proc/self/exe") == 0 ? program : file;
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    int (*next)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
                char *const[]) = dlsym(RTLD_NEXT, "posix_spawnp");
    return next(pid, own(file), actions, attributes, arguments, environment);
}

int execvp(const char *file, char *const arguments[]) {
    int (*next)(const char *, char *const[]) = dlsym(RTLD_NEXT, "execvp");
    return next(own(file), arguments);
}
