// SPDX-License-Identifier: Apache-2.0
/* The pickle `.metadata` of a distributed checkpoint, turned into chunks and items. */
#include "model/dcp.h"

enum {
    MAX_CHUNKS = 4000000,
    MAX_ITEMS = 4000000
};

/* Attribute of a dataclass instance as pickle stores it. */
static struct pickle_value *field(const struct pickle_value *v, const char *name)
{
    return v != NULL && v->kind == PICKLE_CALL ? pickle_get(v->call.state, name) : NULL;
}

static bool is_instance(const struct pickle_value *v, const char *name)
{
    return v != NULL && v->kind == PICKLE_CALL && v->call.callee->kind == PICKLE_GLOBAL &&
           str_is(v->call.callee->global->name, name);
}

/* torch.Size of non-negative ints. */
static bool dims_of(struct arena *a, const struct pickle_value *v, const uint64_t **ret,
                    uint32_t *ret_rank)
{
    if (v != NULL && v->kind == PICKLE_CALL) {
        v = pickle_arg(v, 0);
    }
    if (v == NULL || v->kind != PICKLE_TUPLE || v->count > TENSOR_RANK_MAX) {
        return false;
    }
    uint64_t *dims = arena_array(a, v->count, sizeof *dims);
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t n;
        if (!pickle_int(v->items[i], &n) || n < 0) {
            return false;
        }
        dims[i] = (uint64_t)n;
    }
    *ret = dims;
    *ret_rank = v->count;
    return true;
}

static bool read_tensor(struct arena *a, struct str name, const struct pickle_value *v,
                        struct dcp_tensor *t, uint64_t *chunks)
{
    const struct pickle_value *list = field(v, "chunks");
    *t = (struct dcp_tensor){.name = name};
    if (list == NULL || list->kind != PICKLE_LIST || (*chunks += list->count) > MAX_CHUNKS ||
        !dims_of(a, field(v, "size"), &t->shape, &t->rank)) {
        return false;
    }
    t->chunks = arena_array(a, list->count, sizeof *t->chunks);
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t rank_at;
        uint32_t rank_of;
        struct dcp_chunk *c = &t->chunks[t->chunk_count];
        if (!dims_of(a, field(list->items[i], "offsets"), &c->offsets, &rank_at) ||
            !dims_of(a, field(list->items[i], "sizes"), &c->sizes, &rank_of) ||
            rank_at != t->rank || rank_of != t->rank) {
            return false;
        }
        t->chunk_count++;
    }
    return true;
}

static bool read_item(struct arena *a, const struct pickle_value *index,
                      const struct pickle_value *info, struct dcp_item *item)
{
    const struct pickle_value *name = field(index, "fqn");
    const struct pickle_value *path = field(info, "relative_path");
    const struct pickle_value *offset = field(index, "offset");
    int64_t at;
    int64_t length;
    if (name == NULL || name->kind != PICKLE_TEXT || path == NULL || path->kind != PICKLE_TEXT ||
        !pickle_int(field(info, "offset"), &at) || !pickle_int(field(info, "length"), &length) ||
        at < 0 || length < 0) {
        return false;
    }
    *item = (struct dcp_item){
        .name = name->text, .path = path->text, .at = (uint64_t)at, .length = (uint64_t)length};
    return offset == NULL || offset->kind == PICKLE_NONE ||
           dims_of(a, offset, &item->offsets, &item->rank);
}

static enum status read_root(struct arena *a, const struct pickle_value *root,
                             struct dcp_metadata *ret, struct err *err)
{
    size_t entries;
    size_t stored;
    uint64_t chunks = 0;
    struct dcp_metadata m = {0};
    struct pickle_value *const *tensors = pickle_pairs(field(root, "state_dict_metadata"),
                                                       &entries);
    struct pickle_value *const *items = pickle_pairs(field(root, "storage_data"), &stored);
    if (!is_instance(root, "Metadata") || tensors == NULL || items == NULL || stored > MAX_ITEMS) {
        return err_set(err, ST_FORMAT, ".metadata is not the metadata of a distributed checkpoint");
    }
    m.tensors = arena_array(a, entries, sizeof *m.tensors);
    m.items = arena_array(a, stored, sizeof *m.items);
    for (size_t i = 0; i < entries; i++) {
        const struct pickle_value *key = tensors[2 * i];
        const struct pickle_value *value = tensors[2 * i + 1];
        if (is_instance(value, "BytesStorageMetadata")) {
            m.objects++;
        } else if (key->kind != PICKLE_TEXT || !is_instance(value, "TensorStorageMetadata") ||
                   !read_tensor(a, key->text, value, &m.tensors[m.tensor_count++], &chunks)) {
            return err_set(err, ST_FORMAT, ".metadata: entry %zu of the tensors is damaged", i);
        }
    }
    for (size_t i = 0; i < stored; i++) {
        if (!read_item(a, items[2 * i], items[2 * i + 1], &m.items[m.item_count++])) {
            return err_set(err, ST_FORMAT, ".metadata: entry %zu of the stored items is damaged",
                           i);
        }
    }
    *ret = m;
    return ST_OK;
}

enum status dcp_read(struct arena *a, struct str bytes, struct issues *issues,
                     struct dcp_metadata *ret, struct err *err)
{
    struct pickle p;
    TRY(pickle_read(a, bytes, ".metadata", PICKLE_LIMITS_DEFAULT, issues, &p, err));
    return read_root(a, p.root, ret, err);
}
