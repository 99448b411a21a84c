// SPDX-License-Identifier: Apache-2.0
/*
 * What adapter_config.json asks for, whatever the kind of the adapter: which modules and parameters are
 * adapted, which are saved whole, how tensors are named.
 * Source: peft/config.py, peft/tuners/tuners_utils.py, peft/utils/save_and_load.py.
 */
#ifndef ASSAY_MODEL_ADAPTER_CONFIG_H
#define ASSAY_MODEL_ADAPTER_CONFIG_H

#include "model/folder.h"

struct adapter_file {
    const struct folder *f;
    const struct tree *config;
    const struct tensor_file *file;
    const char *name; /* of the tensor file */
};

enum adapter_target {
    ADAPTER_TARGET_NONE,
    ADAPTER_TARGET_MODULE,   /* of target_modules; an expression there takes every module */
    ADAPTER_TARGET_PARAMETER /* of target_parameters */
};

/* How the configuration names a module ("base_model.model.model.layers.0.mlp.gate_proj"). */
enum adapter_target adapter_target(const struct tree *config, struct str module);

bool adapter_flag(const struct tree *config, const char *key);

/* Names that PEFT does not look for, and tensors that hold nothing. */
void adapter_check_names(const struct adapter_file *a);

/* Every entry of target_modules and modules_to_save against the tensors. */
void adapter_check_targets(const struct adapter_file *a);

/* Prompts that are learned: as many rows as the configuration says, or so many for each submodule. */
void adapter_check_prompt(const struct adapter_file *a);

#endif
