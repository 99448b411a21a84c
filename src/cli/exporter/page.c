// SPDX-License-Identifier: Apache-2.0
/* The page of the exporter: tables of families, filled from runs, GPUs, the host and the exporter. */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include "base/str.h"

#include "cli/exporter/exporter.h"
#include "study/exposition.h"

/* ---- runs ---- */

/* Last value of a metric, of the lowest rank that has it. */
static double run_metric(const struct exporter_run *r, const char *metric)
{
    double value = NAN;
    int rank = INT32_MAX;
    for (size_t i = 0; i < anomaly_series_count(r->set); i++) {
        struct anomaly_view v = anomaly_series_view(r->set, i);
        if (strcmp(v.metric, metric) == 0 && v.rank < rank) {
            rank = v.rank;
            value = v.last;
        }
    }
    return value;
}

static void run_metrics(const struct exporter *e, struct exposition *x)
{
    static const struct {
        const char *family, *unit, *metric, *help;
    } rows[] = {
        {"assay_run_loss", NULL, "loss", "Last training loss."},
        {"assay_run_eval_loss", NULL, "eval_loss", "Last evaluation loss."},
        {"assay_run_gradient_norm", NULL, "grad_norm", "Last gradient norm."},
        {"assay_run_learning_rate", NULL, "lr", "Last learning rate."},
        {"assay_run_step_time_seconds", "seconds", "step_time", "Last time of a step."},
        {"assay_run_data_time_seconds", "seconds", "data_time", "Last time spent on loading data."},
        {"assay_run_tokens_per_second", NULL, "tokens_per_s", "Last throughput."},
        {"assay_run_memory_bytes", "bytes", "memory",
         "Device memory in use as the trainer logs it."},
    };

    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        exposition_family(x, EXPOSITION_GAUGE, rows[k].family, rows[k].unit, rows[k].help);
        for (size_t i = 0; i < e->run_count; i++) {
            double v = run_metric(e->runs[i], rows[k].metric);
            if (!isnan(v)) {
                exposition_sample(x, (const char *[]){"run", e->runs[i]->label, NULL}, v);
            }
        }
    }
}

enum run_number {
    RUN_STEP,
    RUN_PLANNED,
    RUN_LAST_TIME,
    RUN_AGE,
    RUN_ENDED,
    RUN_EXIT,
    RUN_READABLE
};

static double run_number(const struct exporter_run *r, enum run_number which)
{
    switch (which) {
    case RUN_STEP: return r->progress.step >= 0 ? (double)r->progress.step : NAN;
    case RUN_PLANNED: return r->progress.total > 0 ? (double)r->progress.total : NAN;
    case RUN_LAST_TIME: return r->last_value;
    case RUN_AGE: return fmax(exporter_epoch() - r->last_value, 0);
    case RUN_ENDED: return r->progress.ended;
    case RUN_EXIT: return r->progress.exit_code >= 0 ? (double)r->progress.exit_code : NAN;
    case RUN_READABLE: return !r->unreadable;
    }
    return NAN;
}

static void run_numbers(const struct exporter *e, struct exposition *x)
{
    static const struct {
        enum run_number which;
        const char *family, *unit, *help;
    } rows[] = {
        {RUN_STEP, "assay_run_step", NULL, "Highest training step seen."},
        {RUN_PLANNED, "assay_run_planned_steps", NULL, "Training steps the run was planned for."},
        {RUN_LAST_TIME, "assay_run_last_progress_timestamp_seconds", "seconds",
         "When the last metric came, since the epoch."},
        {RUN_AGE, "assay_run_progress_age_seconds", "seconds", "Time since the last metric came."},
        {RUN_ENDED, "assay_run_ended", NULL, "1 when the run is over."},
        {RUN_EXIT, "assay_run_exit_status", NULL, "Exit status of a run that is over."},
        {RUN_READABLE, "assay_run_readable", NULL, "0 when a log of the run cannot be read."},
    };

    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        exposition_family(x, EXPOSITION_GAUGE, rows[k].family, rows[k].unit, rows[k].help);
        for (size_t i = 0; i < e->run_count; i++) {
            double v = run_number(e->runs[i], rows[k].which);
            /* A NaN here is "not known", as run.json or the log does not say. */
            if (!isnan(v)) {
                exposition_sample(x, (const char *[]){"run", e->runs[i]->label, NULL}, v);
            }
        }
    }
}

static void run_counters(const struct exporter *e, struct exposition *x)
{
    exposition_family(x, EXPOSITION_INFO, "assay_run", NULL, "A run that is followed.");
    for (size_t i = 0; i < e->run_count; i++) {
        const struct exporter_run *r = e->runs[i];
        exposition_sample(
            x, (const char *[]){"run", r->label, "from", r->folder ? "folder" : "log", NULL}, 1);
    }
    exposition_family(x, EXPOSITION_COUNTER, "assay_run_anomalies", NULL,
                      "Anomalies found in the metrics of a run, by kind.");
    for (size_t i = 0; i < e->run_count; i++) {
        for (int k = 0; k < ANOMALY_KIND_COUNT; k++) {
            enum anomaly_kind kind = (enum anomaly_kind)k;
            exposition_sample(
                x,
                (const char *[]){"run", e->runs[i]->label, "kind", anomaly_kind_name(kind), NULL},
                (double)anomaly_count(e->runs[i]->set, kind));
        }
    }
    exposition_family(x, EXPOSITION_COUNTER, "assay_run_metric_values", NULL,
                      "Values of metrics that were read.");
    for (size_t i = 0; i < e->run_count; i++) {
        exposition_sample(x, (const char *[]){"run", e->runs[i]->label, NULL},
                          (double)e->runs[i]->values);
    }
    exposition_family(x, EXPOSITION_COUNTER, "assay_run_not_finite_values", NULL,
                      "Values of metrics that were NaN or infinite.");
    for (size_t i = 0; i < e->run_count; i++) {
        uint64_t n = 0;
        for (size_t k = 0; k < anomaly_series_count(e->runs[i]->set); k++) {
            n += anomaly_series_view(e->runs[i]->set, k).not_finite;
        }
        exposition_sample(x, (const char *[]){"run", e->runs[i]->label, NULL}, (double)n);
    }
    exposition_family(x, EXPOSITION_COUNTER, "assay_run_log_bytes", "bytes", "Bytes of logs read.");
    for (size_t i = 0; i < e->run_count; i++) {
        exposition_sample(x, (const char *[]){"run", e->runs[i]->label, NULL},
                          (double)e->runs[i]->progress.bytes);
    }
}

/* ---- GPUs and the host ---- */

static const struct {
    enum exposition_type type;
    const char *family, *unit, *field;
    double scale; /* of the fact to the base unit */
    const char *help;
} gpu_rows[] = {
    {EXPOSITION_GAUGE, "assay_gpu_memory_size_bytes", "bytes", "vram_total_bytes", 1,
     "Memory of the GPU."},
    {EXPOSITION_GAUGE, "assay_gpu_memory_used_bytes", "bytes", "vram_used_bytes", 1,
     "Memory of the GPU in use."},
    {EXPOSITION_GAUGE, "assay_gpu_busy_ratio", "ratio", "busy_percent", 0.01, "Load of the GPU."},
    {EXPOSITION_GAUGE, "assay_gpu_clock_hertz", "hertz", "sclk_mhz", 1e6, "Core clock."},
    {EXPOSITION_GAUGE, "assay_gpu_power_watts", "watts", "power_w", 1, "Power drawn by the board."},
    {EXPOSITION_GAUGE, "assay_gpu_power_limit_watts", "watts", "power_cap_w", 1, "Power limit."},
    {EXPOSITION_GAUGE, "assay_gpu_temperature_celsius", "celsius", "temp_c", 1,
     "Temperature of the hottest sensor."},
    {EXPOSITION_GAUGE, "assay_gpu_pcie_lanes", NULL, "pcie_width", 1, "PCIe lanes in use."},
    {EXPOSITION_GAUGE, "assay_gpu_processes", NULL, "proc_count", 1,
     "Processes with a context on the GPU."},
    {EXPOSITION_COUNTER, "assay_gpu_uncorrectable_errors", NULL, "ras.ue_count", 1,
     "Uncorrectable memory errors since the driver was loaded."},
    {EXPOSITION_COUNTER, "assay_gpu_correctable_errors", NULL, "ras.ce_count", 1,
     "Correctable memory errors since the driver was loaded."},
};

static const char *number_text(char text[16], int i)
{
    str_print(text, 16, "%d", i);
    return text;
}

static const char *vendor_of(const struct gpu_readings *g, int gpu)
{
    const char *id = gpu_readings_text(g, gpu, "vendor");
    return id == NULL                  ? ""
           : strcmp(id, "0x1002") == 0 ? "amd"
           : strcmp(id, "0x10de") == 0 ? "nvidia"
                                       : id;
}

static const char *known_text(const struct gpu_readings *g, int gpu, const char *field)
{
    const char *text = gpu_readings_text(g, gpu, field);
    return text != NULL ? text : "";
}

/* Why an NVIDIA board is slower than it could be; others tell no reasons that have names. */
static void throttle_reasons(const struct gpu_readings *g, struct exposition *x)
{
    static const struct {
        const char *name;
        int bit;
    } reasons[] = {{"power_cap", NVML_THROTTLE_POWER_CAP},
                   {"hardware_slowdown", NVML_THROTTLE_HARDWARE},
                   {"thermal_software", NVML_THROTTLE_THERMAL_SOFTWARE},
                   {"thermal_hardware", NVML_THROTTLE_THERMAL_HARDWARE},
                   {"power_brake", NVML_THROTTLE_POWER_BRAKE}};

    char index[16];
    exposition_family(x, EXPOSITION_GAUGE, "assay_gpu_throttle_reason", NULL,
                      "1 for each reason for which an NVIDIA GPU is throttled, else 0.");
    for (int i = 0; i < g->count; i++) {
        double v = gpu_readings_number(g, i, "throttle_status");
        if (isnan(v) || strcmp(vendor_of(g, i), "nvidia") != 0) {
            continue;
        }
        for (size_t k = 0; k < ARRAY_LEN(reasons); k++) {
            exposition_sample(
                x, (const char *[]){"gpu", number_text(index, i), "reason", reasons[k].name, NULL},
                ((int64_t)v & reasons[k].bit) != 0);
        }
    }
}

static void gpu_families(const struct gpu_readings *g, struct exposition *x)
{
    char index[16];
    int missing[GPU_READINGS_MAX] = {0};
    exposition_family(x, EXPOSITION_INFO, "assay_gpu", NULL, "A GPU of this machine.");
    for (int i = 0; i < g->count; i++) {
        exposition_sample(
            x,
            (const char *[]){"gpu", number_text(index, i), "vendor", vendor_of(g, i), "name",
                             known_text(g, i, "name"), "pci", known_text(g, i, "pci"), "driver",
                             known_text(g, i, "driver"), "gfx", known_text(g, i, "gfx"), NULL},
            1);
    }
    for (size_t k = 0; k < ARRAY_LEN(gpu_rows); k++) {
        exposition_family(x, gpu_rows[k].type, gpu_rows[k].family, gpu_rows[k].unit,
                          gpu_rows[k].help);
        for (int i = 0; i < g->count; i++) {
            double v = gpu_readings_number(g, i, gpu_rows[k].field);
            missing[i] += isnan(v);
            if (!isnan(v)) {
                exposition_sample(x, (const char *[]){"gpu", number_text(index, i), NULL},
                                  v * gpu_rows[k].scale);
            }
        }
    }
    exposition_family(x, EXPOSITION_GAUGE, "assay_gpu_throttled", NULL,
                      "1 while the driver gives a reason for throttling.");
    for (int i = 0; i < g->count; i++) {
        double v = gpu_readings_number(g, i, "throttle_status");
        if (!isnan(v)) {
            exposition_sample(x, (const char *[]){"gpu", number_text(index, i), NULL}, v != 0);
        }
    }
    throttle_reasons(g, x);
    exposition_family(x, EXPOSITION_GAUGE, "assay_gpu_missing_readings", NULL,
                      "Readings of the GPU that the system does not give.");
    for (int i = 0; i < g->count; i++) {
        exposition_sample(x, (const char *[]){"gpu", number_text(index, i), NULL}, missing[i]);
    }
}

static void host_families(const struct gpu_readings *g, struct exposition *x)
{
    static const struct {
        const char *family, *fact, *help;
    } rows[] = {{"assay_host_memory_size_bytes", "mem.total_bytes", "Memory of the host."},
                {"assay_host_memory_available_bytes", "mem.available_bytes",
                 "Memory of the host that programs may still take."}};

    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        const struct fact *f = facts_get(g->facts, rows[k].fact);
        exposition_family(x, EXPOSITION_GAUGE, rows[k].family, "bytes", rows[k].help);
        if (f != NULL && f->state == FACT_KNOWN && f->value.kind == VALUE_INT) {
            exposition_sample(x, NULL, (double)f->value.integer);
        }
    }
    exposition_family(x, EXPOSITION_INFO, "assay_host", NULL, "This machine.");
    exposition_sample(x,
                      (const char *[]){"kernel", facts_get_string(g->facts, "os.kernel", ""), "os",
                                       facts_get_string(g->facts, "os.name", ""), "cpu",
                                       facts_get_string(g->facts, "cpu.model", ""), NULL},
                      1);
}

/* ---- the exporter itself ---- */

/* Resident memory of this process, NaN when it cannot be read. */
static double resident_bytes(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NAN;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    struct str rest = {.p = text, .n = n > 0 ? (size_t)n : 0};
    struct str field;
    uint64_t pages;
    if (!str_cut(&rest, ' ', &field) || !str_cut(&rest, ' ', &field) ||
        str_to_u64(field, 10, &pages) != ST_OK) {
        return NAN;
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void own_families(const struct exporter *e, struct exposition *x)
{
    exposition_family(x, EXPOSITION_INFO, "assay_build", NULL, "Version of assay.");
    exposition_sample(x, (const char *[]){"version", ASSAY_VERSION, NULL}, 1);
    exposition_family(x, EXPOSITION_GAUGE, "assay_exporter_runs", NULL, "Runs that are followed.");
    exposition_sample(x, NULL, (double)e->run_count);
    exposition_family(x, EXPOSITION_GAUGE, "assay_exporter_runs_left_out", NULL,
                      "Runs that are not followed because there are too many.");
    exposition_sample(x, NULL, (double)e->runs_left_out);
    exposition_family(x, EXPOSITION_COUNTER, "assay_exporter_pages", NULL,
                      "Pages of metrics made.");
    exposition_sample(x, NULL, (double)e->pages);
    if (e->server != NULL) {
        struct http_counts c = http_server_counts(e->server);
        exposition_family(x, EXPOSITION_GAUGE, "assay_exporter_clients", NULL, "Connections now.");
        exposition_sample(x, NULL, c.clients);
        exposition_family(x, EXPOSITION_COUNTER, "assay_exporter_client_faults", NULL,
                          "Requests and connections that did not end well, by reason.");
        exposition_sample(x, (const char *[]){"reason", "refused", NULL}, (double)c.refused);
        exposition_sample(x, (const char *[]){"reason", "timed_out", NULL}, (double)c.timed_out);
        exposition_sample(x, (const char *[]){"reason", "displaced", NULL}, (double)c.displaced);
        exposition_sample(x, (const char *[]){"reason", "broken", NULL}, (double)c.broken);
    }
    double resident = resident_bytes();
    struct rusage usage;
    exposition_family(x, EXPOSITION_GAUGE, "process_resident_memory_bytes", "bytes",
                      "Resident memory of the exporter.");
    if (!isnan(resident)) {
        exposition_sample(x, NULL, resident);
    }
    exposition_family(x, EXPOSITION_COUNTER, "process_cpu_seconds", "seconds",
                      "Processor time of the exporter.");
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        exposition_sample(x, NULL,
                          (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                              (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6);
    }
    exposition_family(x, EXPOSITION_GAUGE, "process_start_time_seconds", "seconds",
                      "When the exporter was started, since the epoch.");
    exposition_sample(x, NULL, e->started);
}

void exporter_page(struct exporter *e, bool openmetrics, struct strbuf *out)
{
    struct exposition x;
    e->pages++;
    exposition_init(&x, out, openmetrics);
    run_counters(e, &x);
    run_numbers(e, &x);
    run_metrics(e, &x);
    gpu_families(&e->gpus, &x);
    host_families(&e->gpus, &x);
    own_families(e, &x);
    exposition_end(&x);
}
