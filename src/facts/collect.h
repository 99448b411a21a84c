// SPDX-License-Identifier: Apache-2.0
/*
 * Collecting facts. Each source is one file with one function `collect_<source>`, listed in the
 * table of collect.c in an order in which later sources may use the facts of earlier ones. A
 * collector never fails: what it cannot read it records with its state.
 */
#ifndef ASSAY_FACTS_COLLECT_H
#define ASSAY_FACTS_COLLECT_H

#include "base/fs.h"

#include "facts/facts.h"

struct collect {
    const struct fs *fs;   /* the machine, live or frozen */
    struct facts *facts;   /* where facts go; its arena outlives the collection */
    struct arena *scratch; /* rewound between collectors */
    const char *python;    /* --python: an interpreter or environment folder, or NULL */
    const char *binary;    /* --binary: a program or library of the user inside the root, or NULL */
    const char *const *env; /* environment of the job: "NAME=value", NULL-terminated; of this
                                 process when live, of proc/self/environ when frozen */
    const char *user_home;  /* home folder inside the root, or NULL */
    const char *const *switch_names; /* known variables, for collect_switches; NULL-terminated, or
                                        NULL: the caller takes them from knowledge/switches.yaml */
};

/* Runs the whole table. */
void collect_all(struct collect *c);

/* Value of a variable of the job, or NULL. */
const char *collect_env(const struct collect *c, const char *name);

/* The sources, one file each: collect_<source> in <source>.c. */
void collect_environment(struct collect *c);
void collect_host(struct collect *c);
void collect_process(struct collect *c);
void collect_container(struct collect *c);
void collect_devices(struct collect *c);
void collect_pci(struct collect *c);
void collect_kfd(struct collect *c);
void collect_amdgpu(struct collect *c);
void collect_nvidia(struct collect *c);
void collect_packages(struct collect *c);
void collect_rocm(struct collect *c);
void collect_python(struct collect *c);
void collect_libraries(struct collect *c);
void collect_switches(struct collect *c);
void collect_triton(struct collect *c);
void collect_binary(struct collect *c);

#endif
