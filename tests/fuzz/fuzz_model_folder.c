// SPDX-License-Identifier: Apache-2.0
/* A folder whose safetensors file, index and manifest come from one input, cut in three by its first four bytes (two
 * little-endian lengths, of the index and of the manifest): opened, checked and hashed without a crash. Nothing but
 * the three is written. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/bytes.h"

#include "model/checkpoint.h"
#include "model/manifest.h"

#define INDEX_NAME "model.safetensors.index.json"
#define SHARD_NAME "model-00001-of-00002.safetensors"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void put(const char *name, const uint8_t *data, size_t n)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) != 0) {
        abort();
    }
}

static void remove_folder(void)
{
    static const char *const names[] = {INDEX_NAME, MANIFEST_NAME, SHARD_NAME};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void make_folder(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/fuzz_model_folder.%d", (int)getpid());
    if (mkdir(folder, 0700) != 0 || atexit(remove_folder) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) {
        return 0;
    }
    if (folder[0] == '\0') {
        make_folder();
    }
    size_t index = bytes_le16((const char *)data);
    size_t list = bytes_le16((const char *)data + 2);
    data += 4;
    size -= 4;
    index = index < size ? index : size;
    list = list < size - index ? list : size - index;
    put(INDEX_NAME, data, index);
    put(MANIFEST_NAME, data + index, list);
    put(SHARD_NAME, data + index + list, size - index - list);
    struct arena *a = arena_new((size_t)1 << 30);
    struct issues issues;
    struct checkpoint c;
    struct err err;
    issues_init(&issues, a, folder);
    if (checkpoint_open(a, folder, &issues, &c, &err) != ST_OK) {
        abort();
    }
    struct manifest_options manifest = {.threads = 1};
    struct scan_options scan = {.threads = 1};
    struct strbuf text;
    strbuf_init(&text, a, 1 << 24);
    bool wrong = issues_wrong(&issues);
    checkpoint_check_shards(&c);
    checkpoint_scan(&c, &scan);
    checkpoint_judge(&c, false);
    manifest_check(&c, &manifest);
    if (c.files.count != 1) {
        abort();
    }
    if (!wrong && manifest_write(&c, &manifest, &text, &err) != ST_OK) {
        abort(); /* of files in order a manifest can be written */
    }
    checkpoint_close(&c);
    arena_free(a);
    return 0;
}
