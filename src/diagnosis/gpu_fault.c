// SPDX-License-Identifier: Apache-2.0
/* amdgpu page faults, Xids, ROCr blocks; see gpu_fault.h. */
#include "diagnosis/gpu_fault.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnosis/line_text.h"

enum {
    MAX_OPEN = 8,
    BLOCK_LINES = 64,
    BLOCK_SECONDS = 5,
    FIELD = 128
};

static const struct pattern page_fault_pattern = {
    .id = "amdgpu-page-fault", .logs = LOG_ANY, .kind = PATTERN_FAULT};
static const struct pattern rocr_pattern = {
    .id = "rocr-fault-block", .logs = LOG_ANY, .kind = PATTERN_FAULT};
static const struct pattern xid_fault_pattern = {
    .id = "nvidia-xid", .logs = LOG_ANY, .kind = PATTERN_FAULT};
static const struct pattern xid_consequence_pattern = {
    .id = "nvidia-xid", .logs = LOG_ANY, .kind = PATTERN_CONSEQUENCE};

/* One amdgpu page fault while its lines come in. */
struct block {
    bool open;
    uint64_t last_line;
    struct kept_line head;
    char pci[FIELD];
    char hub[FIELD];
    char vmid[FIELD];
    char pasid[FIELD];
    char pid[FIELD];
    char process[FIELD];
    char client[FIELD];
    char address[FIELD];
    char status[FIELD];
    char rw[FIELD];
    char permission[FIELD];
    char walker[FIELD];
    char mapping[FIELD];
    char more_faults[FIELD];
    bool device_gone;
    bool cleared; /* the status is 0, as behind the first of many faults: it tells no client */
    bool fault;   /* more than a process: ring timeouts name one in the same words */
};

struct rocr_block {
    bool open;
    uint64_t last_line;
    struct kept_line head;
    char error[FIELD];
    char kernel[1024]; /* Tensile names reach 855 characters */
    char address[FIELD];
    char grid[FIELD];
    char workgroup[FIELD];
    char queue[FIELD];
    char gpu[FIELD];
    bool fault; /* something in it says fault; dispatch dumps alone are no fault */
};

struct gpu_faults {
    struct event_store *store;
    const struct error_table *errors;
    struct block blocks[MAX_OPEN];
    struct rocr_block rocr;
};

struct fault_status fault_status_decode(uint32_t status)
{
    return (struct fault_status){
        .more_faults = status & 1,
        .walker = status >> 1 & 7,
        .permission = status >> 4 & 15,
        .mapping = status >> 8 & 1,
        .client = status >> 9 & 0x1ff,
        .write = (status >> 18 & 1) != 0,
        .vmid = status >> 20 & 15,
        .device_gone = status == 0xffffffff,
    };
}

const char *fault_client_name(unsigned client)
{
    /* Seen in public logs: CPF, TCP, SQC (data), SDMA0; the others by gfxhub_v*.c's order. */
    static const char *const names[] = {
        [0x4] = "CPF",        [0x5] = "CPC",        [0x6] = "CPG",   [0x7] = "RLC",   [0x8] = "TCP",
        [0x9] = "SQC (inst)", [0xa] = "SQC (data)", [0xd] = "SDMA0", [0xe] = "SDMA1",
    };
    return client < ARRAY_LEN(names) ? names[client] : NULL;
}

struct gpu_faults *gpu_faults_new(struct arena *a, struct event_store *store,
                                  const struct error_table *errors)
{
    struct gpu_faults *g = arena_alloc(a, sizeof *g);
    g->store = store;
    g->errors = errors;
    return g;
}

static void set(char *field, size_t size, struct str value)
{
    value = str_trim(value);
    if (value.n == 0 || field[0] != '\0') {
        return; /* the first line that says it counts */
    }
    size_t n = value.n < size ? value.n : size - 1;
    memcpy(field, value.p, n);
    field[n] = '\0';
}

#define SET(field, value) set((field), sizeof(field), (value))

static void set_number(char field[FIELD], unsigned n)
{
    if (field[0] == '\0') {
        snprintf(field, FIELD, "%u", n);
    }
}

static void close_block(struct gpu_faults *g, struct block *b)
{
    if (!b->open) {
        return;
    }
    b->open = false;
    if (!b->fault) {
        return;
    }
    int64_t vmid = line_number(str_of(b->vmid), "", -1);
    const struct capture captures[] = {
        {"hub", b->hub},
        {"vmid", b->vmid},
        {"pasid", b->pasid},
        {"pid", b->pid},
        {"process", b->process},
        {"client", b->client},
        {"rw", b->rw},
        {"permission", b->permission},
        {"walker", b->walker},
        {"mapping", b->mapping},
        {"more_faults", b->more_faults},
        {"status", b->status},
        {"address", b->address},
        {"pci", b->pci},
        {"device_gone", b->device_gone ? "yes" : NULL},
        {"compute", vmid >= 8 && !b->device_gone ? "yes" : NULL},
    };
    event_store_add(g->store, &page_fault_pattern, &b->head.line, captures, ARRAY_LEN(captures));
}

/* "0000:03:00.0" of the line, or empty. */
static struct str pci_of(struct str line)
{
    for (size_t at = 0; at + 12 <= line.n; at++) {
        const char *p = line.p + at;
        if (p[4] == ':' && p[7] == ':' && p[10] == '.' && (at == 0 || p[-1] == ' ')) {
            return str_slice(line, at, at + 12);
        }
    }
    return (struct str){.p = "", .n = 0};
}

static bool stale(const struct block *b, const struct line_context *line)
{
    if (line->piece.line > b->last_line + BLOCK_LINES || line->file != b->head.line.file) {
        return true;
    }
    double gap = line->prefix.time - b->head.line.prefix.time;
    return gap > BLOCK_SECONDS; /* false for NaN */
}

/* The open block of the line's card, a new one when `head` or when there is none. */
static struct block *block_for(struct gpu_faults *g, const struct line_context *line, bool head)
{
    struct str pci = pci_of(line->piece.text);
    struct block *oldest = &g->blocks[0];
    for (size_t i = 0; i < MAX_OPEN; i++) {
        struct block *b = &g->blocks[i];
        if (b->open && stale(b, line)) {
            close_block(g, b);
        }
        if (b->open && (pci.n == 0 || b->pci[0] == '\0' || str_is(pci, b->pci))) {
            if (!head) {
                b->last_line = line->piece.line;
                return b;
            }
            close_block(g, b);
        }
        if (!b->open || b->last_line < oldest->last_line) {
            oldest = b;
        }
    }
    close_block(g, oldest);
    *oldest = (struct block){.open = true, .last_line = line->piece.line};
    kept_line_set(&oldest->head, line);
    SET(oldest->pci, pci);
    return oldest;
}

static void read_head(struct block *b, struct str s)
{
    size_t hub = str_find(s, "hub", 0);
    if (hub != SIZE_MAX) { /* [gfxhub], [mmhub0] */
        size_t from = hub;
        while (from != 0 && s.p[from - 1] != '[' && hub - from < 8) {
            from--;
        }
        size_t to = str_find_char(s, ']', hub);
        SET(b->hub, str_slice(s, from, to == SIZE_MAX ? hub + 3 : to));
    }
    SET(b->vmid, line_digits(line_behind(s, "vmid:", "")));
    SET(b->pasid, line_digits(line_behind(s, "pasid:", "")));
}

/* "process python3 pid 3710 thread python3 pid 3710" in its three wordings. */
static void read_process(struct block *b, struct str s)
{
    size_t at = str_find(s, "rocess ", 0);
    size_t pid = at == SIZE_MAX ? SIZE_MAX : str_find(s, " pid ", at);
    if (pid == SIZE_MAX) {
        return;
    }
    struct str name = str_slice(s, at + 7, pid);
    /* A process that has gone is printed as "Process  pid 0 thread  pid 0". */
    struct str number = line_digits(str_slice(s, pid + 5, s.n));
    if (str_trim(name).n != 0 && !str_is(number, "0")) {
        SET(b->process, name);
        SET(b->pid, number);
    }
}

static void read_status(struct block *b, struct str s)
{
    size_t at = str_find(s, "PROTECTION_FAULT_STATUS", 0);
    size_t hex = at == SIZE_MAX ? SIZE_MAX : str_find(s, "0x", at);
    uint64_t word;
    if (hex == SIZE_MAX || b->status[0] != '\0') {
        return;
    }
    struct str text = str_slice(s, hex, hex + 10);
    if (str_to_u64(text, 16, &word) != ST_OK || word > UINT32_MAX) {
        return;
    }
    SET(b->status, text);
    struct fault_status f = fault_status_decode((uint32_t)word);
    if (f.device_gone) {
        b->device_gone = true;
        return; /* its fields mean nothing */
    }
    if (word == 0) {
        b->cleared = true;
        return;
    }
    bool graphics = b->hub[0] == '\0' || b->hub[0] == 'g';
    const char *name = graphics ? fault_client_name(f.client) : NULL;
    if (name != NULL) {
        SET(b->client, str_of(name));
    }
    SET(b->rw, f.write ? STR("write") : STR("read"));
    set_number(b->permission, f.permission);
    set_number(b->walker, f.walker);
    set_number(b->mapping, f.mapping);
    set_number(b->more_faults, f.more_faults);
    set_number(b->vmid, f.vmid);
}

/* "Faulty UTCL2 client ID: SQC (data) (0xa)": the number decides, the name helps. */
static void read_client(struct block *b, struct str s)
{
    struct str rest = str_trim(line_behind(s, "client ID:", ""));
    size_t hex = rest.n;
    while (hex > 1 && !(rest.p[hex - 2] == '0' && rest.p[hex - 1] == 'x')) {
        hex--;
    }
    uint64_t id = UINT64_MAX;
    if (hex > 1) {
        size_t end = hex;
        while (end < rest.n && rest.p[end] != ')') {
            end++;
        }
        id = str_to_u64(str_slice(rest, hex, end), 16, &id) == ST_OK ? id : UINT64_MAX;
    }
    bool graphics = b->hub[0] == '\0' || b->hub[0] == 'g';
    const char *name = graphics && id < 512 ? fault_client_name((unsigned)id) : NULL;
    size_t open = str_find(rest, " (0x", 0);
    struct str printed = open == SIZE_MAX ? rest : str_slice(rest, 0, open);
    SET(b->client, name != NULL ? str_of(name) : printed);
}

static void read_field(char field[FIELD], struct str s, const char *key)
{
    struct str hex = line_behind(s, key, " \t\r");
    uint64_t v;
    if (hex.n != 0 && field[0] == '\0' && str_to_u64(hex, 16, &v) == ST_OK) {
        snprintf(field, FIELD, "%llu", (unsigned long long)v);
    }
}

void gpu_faults_amdgpu(struct gpu_faults *g, const struct line_context *line)
{
    struct str s = line->window;
    bool head = str_has(s, "page fault (src_id:");
    struct block *b = block_for(g, line, head);
    if (head) {
        read_head(b, s);
    }
    read_process(b, s);
    if (b->address[0] == '\0') {
        SET(b->address, line_behind(s, "starting at address ", " ,\t"));
    }
    read_status(b, s);
    if (str_has(s, "client ID:") && !b->cleared) {
        read_client(b, s);
    }
    b->fault |= head || b->address[0] != '\0' || b->status[0] != '\0' || b->client[0] != '\0';
    if (b->cleared) {
        return;
    }
    read_field(b->permission, s, "PERMISSION_FAULTS: ");
    read_field(b->walker, s, "WALKER_ERROR: ");
    read_field(b->mapping, s, "MAPPING_ERROR: ");
    read_field(b->more_faults, s, "MORE_FAULTS: ");
    struct str rw = line_behind(s, "\tRW: ", " \t");
    rw = rw.n != 0 ? rw : line_behind(s, " RW: ", " \t");
    if (rw.n != 0) {
        SET(b->rw, str_is(rw, "0x0") ? STR("read") : STR("write"));
    }
}

void gpu_faults_xid(struct gpu_faults *g, const struct line_context *line)
{
    struct str s = line->window;
    size_t at = str_find(s, "Xid (PCI:", 0);
    size_t close = at == SIZE_MAX ? SIZE_MAX : str_find(s, "): ", at);
    if (close == SIZE_MAX) {
        return;
    }
    struct str rest = str_slice(s, close + 3, s.n);
    struct str number = line_digits(rest);
    uint64_t xid;
    if (str_to_u64(number, 10, &xid) != ST_OK || xid > 100000) {
        return;
    }
    const struct xid_row *row = xid_by_number(g->errors, (long)xid);
    struct str pid = line_behind(rest, "pid=", ",");
    struct str process = line_behind(rest, "name=", ",");
    bool unknown = str_has(pid, "<unknown>");
    char fields[5][FIELD] = {{0}};
    SET(fields[0], number);
    SET(fields[1], unknown ? STR("") : pid);
    SET(fields[2], str_has(process, "<unknown>") ? STR("") : process);
    SET(fields[3], line_behind(s, "PCI:", ") "));
    struct str text = str_slice(rest, number.n, rest.n);
    struct str part;
    while (str_starts(text, ", ") && text.n > 2) { /* what follows pid= and name= */
        struct str behind = str_slice(text, 2, text.n);
        if (!str_starts(behind, "pid=") && !str_starts(behind, "name=")) {
            text = behind;
            break;
        }
        text = behind;
        (void)str_cut(&text, ',', &part);
        text = text.p != NULL ? (struct str){.p = text.p - 1, .n = text.n + 1} : STR("");
    }
    SET(fields[4], text);
    const struct capture captures[] = {
        {"xid", fields[0]},
        {"name", row != NULL ? row->name : "unknown"},
        {"class", row != NULL ? row->class_name : "unknown"},
        {"pid", fields[1]},
        {"process", fields[2]},
        {"pci", fields[3]},
        {"text", fields[4]},
        {"meaning", row != NULL ? row->meaning : NULL},
    };
    bool consequence = row != NULL && strcmp(row->class_name, "consequence") == 0;
    event_store_add(g->store, consequence ? &xid_consequence_pattern : &xid_fault_pattern, line,
                    captures, ARRAY_LEN(captures));
}

static void close_rocr(struct gpu_faults *g)
{
    struct rocr_block *b = &g->rocr;
    if (!b->open) {
        return;
    }
    b->open = false;
    if (!b->fault) {
        return;
    }
    const struct capture captures[] = {
        {"error", b->error}, {"kernel", b->kernel},       {"address", b->address},
        {"grid", b->grid},   {"workgroup", b->workgroup}, {"queue", b->queue},
        {"gpu", b->gpu},
    };
    event_store_add(g->store, &rocr_pattern, &b->head.line, captures, ARRAY_LEN(captures));
}

void gpu_faults_rocr(struct gpu_faults *g, const struct line_context *line)
{
    struct rocr_block *b = &g->rocr;
    struct str s = line->window;
    bool head = str_has(s, "Queue error - HSA_STATUS") || str_has(s, "Memory Fault Error [");
    bool far = b->open &&
               (line->piece.line > b->last_line + BLOCK_LINES || line->file != b->head.line.file);
    if (head || far) {
        close_rocr(g);
    }
    if (!b->open) {
        /* Dispatch dumps and kernel names are printed for every launch at high log levels; they
         * start a block only with an address that faulted. */
        if (!head && !str_has(s, "faulting_addr=0x") && !str_has(s, "[VGPU=0x")) {
            return;
        }
        *b = (struct rocr_block){.open = true};
        kept_line_set(&b->head, line);
    }
    b->last_line = line->piece.line;
    b->fault |= head || str_has(s, "faulting_addr=0x");
    SET(b->error, line_behind(s, "Queue error - ", " \t,"));
    SET(b->kernel, line_behind(s, "Kernel Name:", ""));
    SET(b->kernel, line_behind(s, "ShaderName :", ""));
    SET(b->kernel, line_behind(s, "ShaderName:", ""));
    SET(b->kernel, line_behind(s, "kernel: ", "]"));
    SET(b->address, line_behind(s, "faulting_addr=", " ,\t]"));
    SET(b->address, line_behind(s, "faulting addr: ", " ,\t]"));
    SET(b->grid, line_behind(s, "grid=[", "]"));
    SET(b->workgroup, line_behind(s, "workgroup=[", "]"));
    SET(b->queue, line_behind(s, "HWq=", " ,\t]"));
    SET(b->gpu, line_behind(s, "GPU index: ", " ,\t]"));
}

void gpu_faults_flush(struct gpu_faults *g)
{
    for (size_t i = 0; i < MAX_OPEN; i++) {
        close_block(g, &g->blocks[i]);
    }
    close_rocr(g);
}
