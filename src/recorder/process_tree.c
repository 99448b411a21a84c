// SPDX-License-Identifier: Apache-2.0
/* See process_tree.h. A process that ends while we look is simply not in the list. */
#include "recorder/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

/* "1234 (name) S 1 ...": the parent follows the state, which follows the last parenthesis. */
static pid_t parent_of(const char *pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *after = strrchr(text, ')');
    if (after == NULL || after[1] != ' ' || after[2] == '\0') {
        return 0;
    }
    struct str rest = str_of(after + 4);
    struct str number;
    uint64_t value = 0;
    return str_cut(&rest, ' ', &number) && str_to_u64(number, 10, &value) == ST_OK ? (pid_t)value
                                                                                   : 0;
}

struct pair {
    pid_t pid, parent;
};

static size_t all_processes(struct pair *pairs, size_t capacity)
{
    DIR *dir = opendir("/proc");
    size_t count = 0;
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL && count < capacity) {
        uint64_t pid;
        if (str_to_u64(str_of(entry->d_name), 10, &pid) == ST_OK) {
            pairs[count++] = (struct pair){(pid_t)pid, parent_of(entry->d_name)};
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

size_t process_tree(pid_t root, pid_t *ret_pids, size_t capacity)
{
    static const size_t most = 8 * PROCESS_TREE_MAX;
    struct arena *a = arena_new(0);
    struct pair *pairs = arena_array(a, most, sizeof *pairs);
    size_t total = all_processes(pairs, most);
    size_t count = 0;
    /* Breadth first; `next` walks what was found. */
    for (size_t next = 0; next <= count; next++) {
        pid_t parent = next == 0 ? root : ret_pids[next - 1];
        for (size_t i = 0; i < total && count < capacity; i++) {
            if (pairs[i].parent == parent) {
                ret_pids[count++] = pairs[i].pid;
            }
        }
    }
    arena_free(a);
    return count;
}

enum {
    PIDS_MAX = 1 << 14
};

bool pid_list_has(const struct pid_list *list, pid_t pid)
{
    for (size_t i = list->count; i-- > 0;) {
        if (list->items[i] == pid) {
            return true;
        }
    }
    return false;
}

void pid_list_add(struct arena *a, struct pid_list *list, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list->count == PIDS_MAX) {
            list->full = true;
        } else if (!pid_list_has(list, pids[i])) {
            *VEC_PUSH(a, list) = pids[i];
        }
    }
}
