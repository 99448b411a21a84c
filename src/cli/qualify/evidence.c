// SPDX-License-Identifier: Apache-2.0
/*
 * Which path really ran: a short product in the user's PyTorch under the recorder. Libraries that are linked into
 * PyTorch show no call to the recorder; MKL and oneDNN are asked for their own log (MKL_VERBOSE, ONEDNN_VERBOSE),
 * which counts as evidence, too. What variables say counts for nothing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/qualify/qualify.h"
#include "cli/run/served.h"
#include "recorder/maps_file.h"

enum {
    EVIDENCE_WEIGHT = 20,
    LOG_MAX = 64 << 20,
    MAPS_MAX = 16 << 20
};

static const double product_limit_s = 300;

/* Odd sizes, both formats, forward and backward, as a linear layer asks for them. */
static const char product[] =
    "import sys, torch\n"
    "device = sys.argv[1]\n"
    "torch.manual_seed(0)\n"
    "for dtype in (torch.float32, torch.bfloat16):\n"
    "    layer = torch.nn.Linear(63, 129, device=device, dtype=dtype)\n"
    "    for rows in (1, 17, 65):\n"
    "        x = torch.randn(rows, 63, device=device, dtype=dtype, requires_grad=True)\n"
    "        loss = layer(x).float().pow(2).sum()\n"
    "        loss.backward()\n"
    "        assert torch.isfinite(loss) and torch.isfinite(x.grad).all()\n"
    "if device != 'cpu':\n"
    "    torch.cuda.synchronize()\n"
    "print('products done, torch', torch.__version__)\n";

/* Switches that choose a path, and the calls that they should cause or prevent. */
static const struct {
    const char *name, *value, *expect;
} path_switches[] = {
    {"TORCH_BLAS_PREFER_HIPBLASLT", "1", "yes:hipblaslt"},
    {"TORCH_BLAS_PREFER_HIPBLASLT", "0", "no:hipblaslt"},
    {"TORCH_BLAS_PREFER_CUBLASLT", "1", "yes:cublaslt"},
    {"TORCH_BLAS_PREFER_CUBLASLT", "0", "no:cublaslt"},
    {"DISABLE_ADDMM_HIP_LT", "1", "no:hipblaslt"},
    {"DISABLE_ADDMM_CUDA_LT", "1", "no:cublaslt"},
    {"ROCBLAS_USE_HIPBLASLT", "0", "no:hipblaslt"},
};

static const struct fs live = {.prefix = ""};
static const char own_log[] = "its own log";

/* ---- who served ---- */

static struct qualify_path *path_of(struct qualify *q, const char *run, const char *library,
                                    const char *function)
{
    for (size_t i = 0; i < q->paths.count; i++) {
        struct qualify_path *p = &q->paths.items[i];
        if (strcmp(p->run, run) == 0 && strcmp(p->library, library) == 0 &&
            strcmp(p->function, function) == 0) {
            return p;
        }
    }
    struct qualify_path *p = VEC_PUSH(q->cli->arena, &q->paths);
    *p = (struct qualify_path){.run = run, .library = library, .function = function, .path = ""};
    return p;
}

/* "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,...", older: without v1 and
 * primitive. ret_name is "matmul brg_matmul:avx512_core_bf16". */
static bool onednn_call(struct arena *a, struct str line, const char **ret_name)
{
    struct str field;
    struct str what;
    struct str how;
    if (!str_starts(line, "onednn_verbose,") && !str_starts(line, "dnnl_verbose,")) {
        return false;
    }
    while (str_cut(&line, ',', &field)) {
        if (str_is(field, "exec") && str_cut(&line, ',', &field) && str_cut(&line, ',', &what) &&
            str_cut(&line, ',', &how)) {
            *ret_name = arena_fmt(a, "%.*s %.*s", STR_ARG(what), STR_ARG(how));
            return str_is(what, "matmul") || str_is(what, "inner_product");
        }
    }
    return false;
}

/* "MKL_VERBOSE SGEMM(T,N,7,..." */
static bool mkl_call(struct arena *a, struct str line, const char **ret_name)
{
    struct str name;
    if (!str_starts(line, "MKL_VERBOSE ")) {
        return false;
    }
    line = str_slice(line, 12, line.n);
    if (!str_has(line, "(") || !str_cut(&line, '(', &name) || name.n > 60 ||
        !str_has(name, "GEMM")) {
        return false;
    }
    *ret_name = str_dup(a, name);
    return true;
}

/* Calls that libraries wrote into the output themselves. */
static int64_t add_own_logs(struct qualify *q, const char *run, const char *folder)
{
    struct arena *a = q->cli->arena;
    struct str text;
    struct str line;
    int64_t calls = 0;
    if (fs_read(&live, a, arena_fmt(a, "%s/stdout.log", folder), LOG_MAX, &text, NULL) != ST_OK) {
        return 0;
    }
    while (str_cut_line(&text, &line)) {
        const char *name;
        const char *library = mkl_call(a, line, &name)      ? "MKL"
                              : onednn_call(a, line, &name) ? "oneDNN"
                                                            : NULL;
        if (library != NULL) {
            struct qualify_path *p = path_of(q, run, library, name);
            p->path = own_log;
            p->calls++;
            calls++;
        }
    }
    return calls;
}

int64_t qualify_add_paths(struct qualify *q, const char *name, const char *folder,
                          const struct report *r)
{
    struct arena *a = q->cli->arena;
    const struct report_table *t = qualify_table(r, "libraries");
    struct run_served_list served = {0};
    int64_t calls = add_own_logs(q, name, folder);
    if (run_served_read(a, folder, &served, NULL) != ST_OK) {
        served.count = 0;
    }
    for (size_t i = 0; t != NULL && i < t->row_count; i++) {
        struct value n = qualify_cell(t, i, "calls");
        struct qualify_path *p = path_of(q, name, qualify_text(t, i, "library"),
                                         qualify_text(t, i, "function"));
        p->path = qualify_text(t, i, "path");
        p->calls += n.kind == VALUE_INT ? n.integer : 0;
        calls += n.kind == VALUE_INT ? n.integer : 0;
        for (size_t s = 0; s < served.count; s++) {
            if (strcmp(served.items[s].path, p->path) == 0) {
                p->build_id = served.items[s].build_id;
            }
        }
    }
    return calls;
}

/* ---- switches ---- */

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The switch whose expectation this is, or NULL: the user's own. */
static const char *switch_of(struct arena *a, const char *expect)
{
    for (size_t i = 0; i < ARRAY_LEN(path_switches); i++) {
        const char *value = environment(path_switches[i].name);
        if (value != NULL && strcmp(value, path_switches[i].value) == 0 &&
            strcmp(path_switches[i].expect, expect) == 0) {
            return arena_fmt(a, "%s=%s", path_switches[i].name, value);
        }
    }
    return NULL;
}

void qualify_add_expectations(struct qualify *q, struct text_list *words)
{
    struct arena *a = q->cli->arena;
    const char *expect;
    for (size_t i = 0; (expect = cli_repeat(q->cli, "expect", i)) != NULL; i++) {
        *VEC_PUSH(a, words) = "--expect";
        *VEC_PUSH(a, words) = expect;
    }
    for (size_t i = 0; i < ARRAY_LEN(path_switches) && strcmp(q->device, "cpu") != 0; i++) {
        const char *value = environment(path_switches[i].name);
        if (value != NULL && strcmp(value, path_switches[i].value) == 0) {
            *VEC_PUSH(a, words) = "--expect";
            *VEC_PUSH(a, words) = path_switches[i].expect;
        }
    }
}

static void add_switch(struct qualify *q, const char *name, const char *value, const char *result,
                       const char *evidence)
{
    *VEC_PUSH(q->cli->arena, &q->switches) = (struct qualify_switch){
        .name = name, .value = value, .result = result, .evidence = evidence};
}

/* "openblas-pthread/libblas.so.3": distributions tell by the folder which BLAS a generic name stands for. */
static const char *tail_of(const char *path)
{
    size_t slashes = 0;
    for (size_t i = strlen(path); i > 0; i--) {
        slashes += path[i - 1] == '/';
        if (slashes == 2) {
            return path + i;
        }
    }
    return path;
}

/* Calls that match the name of an expectation, also where the recorder by itself does not see it: libraries that
 * are linked into another and wrote a log, generic names. */
static int64_t calls_matching(const struct qualify *q, const char *run, const char *name,
                              const char **ret_where)
{
    int64_t calls = 0;
    for (size_t i = 0; i < q->paths.count; i++) {
        const struct qualify_path *p = &q->paths.items[i];
        bool matches = strcasestr(p->library, name) != NULL ||
                       strcasestr(p->function, name) != NULL ||
                       strcasestr(tail_of(p->path), name) != NULL;
        if (matches && strcmp(p->run, run) == 0) {
            calls += p->calls;
            *ret_where = strcmp(p->path, own_log) == 0 ? "the library's own log" : p->path;
        }
    }
    return calls;
}

/* The answer of the run, corrected by those. */
static void correct(struct qualify *q, const char *run, const char *expect, struct finding *f)
{
    struct arena *a = q->cli->arena;
    bool wanted = strncmp(expect, "yes:", 4) == 0;
    const char *name = expect + (wanted ? 4 : 3);
    const char *where = "";
    int64_t calls = calls_matching(q, run, name, &where);
    if (calls == 0) {
        return;
    }
    const char *text = arena_fmt(a, "%" PRId64 " calls match '%s', in %s", calls, name, where);
    f->severity = wanted ? SEVERITY_OK : SEVERITY_ERROR;
    f->id = wanted ? "expectation-met" : "expectation-broken";
    f->title = arena_fmt(a, wanted ? "%s holds" : "%s does not hold", expect);
    f->claim = wanted ? text
                      : "The library was to be left, and calls of it were seen: what should have "
                        "prevented them is not in effect.";
    f->evidence = (struct evidence_list){0};
    *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "recorder", .text = text};
}

/* What the run says of its expectations. */
static void judge_expectations(struct qualify *q, const char *run, const struct report *r,
                               struct finding_list *findings)
{
    struct arena *a = q->cli->arena;
    for (size_t l = 0; l < r->list_count; l++) {
        const struct finding_list *list = r->lists[l].findings;
        for (size_t i = 0; i < list->count; i++) {
            struct finding f = list->items[i];
            if (strncmp(f.id, "expectation-", 12) != 0) {
                continue;
            }
            const char *at = strstr(f.title, "yes:");
            at = at != NULL ? at : strstr(f.title, "no:");
            struct str rest = str_of(at != NULL ? at : f.title);
            struct str word = rest;
            (void)str_cut(&rest, ' ', &word);
            const char *expect = str_dup(a, word);
            const char *set = switch_of(a, expect);
            correct(q, run, expect, &f);
            add_switch(q, set != NULL ? set : "--expect", expect,
                       f.severity == SEVERITY_OK      ? "took effect"
                       : f.severity == SEVERITY_ERROR ? "did not take effect"
                                                      : "could not tell",
                       arena_fmt(a, "%s: %s", run,
                                 f.evidence.count != 0 ? f.evidence.items[0].text : f.claim));
            if (f.severity == SEVERITY_ERROR && set != NULL) {
                f.severity = SEVERITY_WARNING; /* a preference of the environment, no demand */
            }
            if (f.severity != SEVERITY_OK) {
                f.title = set != NULL ? arena_fmt(a, "%s: %s (%s)", run, f.title, set)
                                      : arena_fmt(a, "%s: %s", run, f.title);
                *VEC_PUSH(a, findings) = f;
            }
        }
    }
}

/* Base names of all files that the processes of the run had mapped. */
static void mapped(struct arena *a, const char *folder, struct text_list *ret_names)
{
    const char *const *names = NULL;
    size_t count = 0;
    if (fs_list(&live, a, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct maps maps = {0};
        struct str text;
        const char *path = arena_fmt(a, "%s/%s", folder, names[i]);
        if (strncmp(names[i], "maps.", 5) != 0 ||
            fs_read(&live, a, path, MAPS_MAX, &text, NULL) != ST_OK ||
            maps_parse(a, text, path, &maps, NULL) != ST_OK) {
            continue;
        }
        for (size_t m = 0; m < maps.count; m++) {
            if (maps.items[m].executable && maps.items[m].path[0] == '/') {
                *VEC_PUSH(a, ret_names) = maps_base_name(&maps.items[m]);
            }
        }
    }
}

/* "libgomp.so.1" or "gomp" as the facts name a reader, in the list of mapped files. */
static bool is_mapped(struct arena *a, const struct text_list *files, const char *reader)
{
    const char *slash = strrchr(reader, '/');
    reader = slash != NULL ? slash + 1 : reader;
    const char *stem = arena_fmt(a, "lib%s", reader);
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(files->items[i], reader) == 0 ||
            strncmp(files->items[i], stem, strlen(stem)) == 0) {
            return true;
        }
    }
    return false;
}

static void judge_switch(struct qualify *q, const struct known_switch *sw, const char *run,
                         const struct text_list *files)
{
    struct arena *a = q->cli->arena;
    const char *value = environment(sw->name);
    const struct fact *read = facts_get(q->facts, arena_fmt(a, "switch.%s.read_by", sw->name));
    const char *loaded = NULL;
    const char *package = NULL;
    if (sw->effect == SWITCH_BUILD_TIME) {
        add_switch(q, sw->name, value, "build-time switch", sw->says);
        return;
    }
    if (sw->effect != SWITCH_REAL) {
        add_switch(q, sw->name, value, "does nothing", sw->says);
        return;
    }
    if (read == NULL || read->state != FACT_KNOWN || read->value.kind != VALUE_LIST) {
        add_switch(q, sw->name, value, "could not tell",
                   read != NULL && read->reason != NULL ? read->reason
                                                        : "which library reads it is not known");
        return;
    }
    for (size_t i = 0; i < read->value.list.count && loaded == NULL; i++) {
        const struct value *v = &read->value.list.items[i];
        if (v->kind == VALUE_STRING && strncmp(v->string, "python:", 7) == 0) {
            package = v->string + 7;
        } else if (v->kind == VALUE_STRING && is_mapped(a, files, v->string)) {
            loaded = v->string;
        }
    }
    if (loaded != NULL) {
        add_switch(q, sw->name, value, "can have an effect",
                   arena_fmt(a, "%s: %s contains its name and was loaded", run, loaded));
    } else if (package != NULL) {
        add_switch(
            q, sw->name, value, "could not tell",
            arena_fmt(a, "%s: Python code of %s reads it, and no record shows what was imported",
                      run, package));
    } else {
        add_switch(q, sw->name, value, "did not take effect",
                   arena_fmt(a, "%s: no library that was loaded contains its name", run));
    }
}

void qualify_judge_switches(struct qualify *q, const char *name, const char *folder,
                            const struct report *r, struct finding_list *findings)
{
    struct arena *a = q->cli->arena;
    struct text_list files = {0};
    size_t first = q->switches.count;
    judge_expectations(q, name, r, findings);
    mapped(a, folder, &files);
    if (files.count == 0) {
        return; /* no process left a map: the switches are not judged, and the stage says why */
    }
    for (size_t i = 0; i < q->k->switches_count; i++) {
        if (environment(q->k->switches[i].name) != NULL) {
            judge_switch(q, &q->k->switches[i], name, &files);
        }
    }
    for (size_t i = first; i < q->switches.count; i++) {
        const struct qualify_switch *s = &q->switches.items[i];
        bool idle = strcmp(s->result, "did not take effect") == 0 ||
                    strcmp(s->result, "does nothing") == 0;
        if (!idle || strncmp(s->value, "yes:", 4) == 0 || strncmp(s->value, "no:", 3) == 0) {
            continue; /* the expectation has a finding of its own */
        }
        struct finding *f = VEC_PUSH(a, findings);
        *f = (struct finding){
            .id = "switch-without-effect",
            .severity = SEVERITY_NOTE,
            .title = arena_fmt(a, "%s=%s is set: %s", s->name, s->value, s->result),
            .claim = s->evidence,
            .confidence = 0.9};
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = "recorder", .text = s->evidence};
    }
}

/* ---- the stage ---- */

static void product_words(struct qualify *q, const char *folder, struct text_list *words)
{
    struct arena *a = q->cli->arena;
    const char *const head[] = {"run", "--record", folder, "--no-facts"};
    for (size_t i = 0; i < ARRAY_LEN(head); i++) {
        *VEC_PUSH(a, words) = head[i];
    }
    if (environment("MKL_VERBOSE") == NULL) {
        *VEC_PUSH(a, words) = "--env";
        *VEC_PUSH(a, words) = "MKL_VERBOSE=1";
    }
    static const char *const onednn[] = {"ONEDNN_VERBOSE=1", "DNNL_VERBOSE=1"};
    for (size_t i = 0; i < ARRAY_LEN(onednn) && environment("ONEDNN_VERBOSE") == NULL; i++) {
        *VEC_PUSH(a, words) = "--env";
        *VEC_PUSH(a, words) = onednn[i];
    }
    qualify_add_expectations(q, words);
    const char *const command[] = {"--", q->python, "-c", product, q->device};
    for (size_t i = 0; i < ARRAY_LEN(command); i++) {
        *VEC_PUSH(a, words) = command[i];
    }
}

/* Copies, waits and look-ups are calls as well, and no products. cuLaunchKernel may be anything. */
static bool is_product(const char *function)
{
    return (strcasestr(function, "gemm") != NULL || strcasestr(function, "matmul") != NULL ||
            strstr(function, "inner_product") != NULL ||
            strstr(function, "primitive_execute") != NULL) &&
           strstr(function, "Heuristic") == NULL;
}

static void judge_product(struct qualify *q, const char *folder, const struct report *r, int exit,
                          struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    int64_t calls = qualify_add_paths(q, "product", folder, r);
    qualify_take(q, r, &s->findings);
    size_t kept = 0; /* expectations get titles with their switch */
    for (size_t i = 0; i < s->findings.count; i++) {
        if (strncmp(s->findings.items[i].id, "expectation-", 12) != 0) {
            s->findings.items[kept++] = s->findings.items[i];
        }
    }
    s->findings.count = kept;
    qualify_judge_switches(q, "product", folder, r, &s->findings);
    if (exit != 0 && kept == 0 && s->findings.count == 0) {
        *VEC_PUSH(a, &s->findings) = (struct finding){
            .id = "product-failed",
            .severity = SEVERITY_ERROR,
            .title = "A short product in PyTorch fails",
            .claim = r->verdict != NULL ? r->verdict : "the process ended badly",
            .confidence = 0.9};
    } else if (exit == 0 && calls == 0) {
        *VEC_PUSH(a, &s->findings) = (struct finding){
            .id = "path-not-seen",
            .severity = SEVERITY_UNKNOWN,
            .title = "Which library computed the products could not be seen",
            .claim = "No hooked library was called and none wrote a log of its own: it is linked "
                     "into PyTorch.",
            .confidence = 1};
    }
    const struct qualify_path *most = NULL;
    for (size_t i = 0; i < q->paths.count; i++) {
        const struct qualify_path *p = &q->paths.items[i];
        if (is_product(p->function) && (most == NULL || p->calls > most->calls)) {
            most = p;
        }
    }
    s->measured = most == NULL ? "products of PyTorch under the recorder"
                               : arena_fmt(a, "most products went to %s (%s: %" PRId64 " calls)",
                                           most->library, most->function, most->calls);
}

void qualify_evidence(struct qualify *q, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct err err = {0};
    struct report r;
    struct text_list words = {0};
    int exit;
    const char *folder = arena_fmt(a, "%s/product", q->folder);
    if (q->other_machine) {
        qualify_not_run(s, "only programs of this machine can be watched, and --root names another",
                        "run assay qualify on that machine");
        return;
    }
    if (q->python == NULL) {
        qualify_no_python(q, "evidence", s);
        return;
    }
    product_words(q, folder, &words);
    if (qualify_child(q, "evidence", &words, product_limit_s, &r, &exit, &err) != ST_OK) {
        qualify_not_run(s, arena_strdup(a, err.text), "assay run -- COMMAND by itself");
        return;
    }
    *VEC_PUSH(a, &q->runs) = folder;
    judge_product(q, folder, &r, exit, s);
    qualify_judge(q, "evidence", EVIDENCE_WEIGHT, s);
}
