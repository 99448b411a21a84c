// SPDX-License-Identifier: Apache-2.0
/* Between save.c, save_tensors.c and save_state.c. */
#ifndef ASSAY_TRAIN_SAVE_INSIDE_H
#define ASSAY_TRAIN_SAVE_INSIDE_H

#include "train/save.h"

#define SAVE_STATE_NAME     "assay_state.json"
#define SAVE_MODEL_NAME     "model.safetensors"
#define SAVE_ADAPTER_NAME   "adapter_model.safetensors"
#define SAVE_OPTIMIZER_NAME "optimizer.safetensors"

/* model.safetensors or adapter_model.safetensors, and optimizer.safetensors. */
enum status save_model_tensors(struct arena *scratch, const char *folder,
                               const struct save_target *target, struct err *err) MUST_USE;
enum status save_optim_tensors(struct arena *scratch, const char *folder,
                               const struct save_target *target, struct err *err) MUST_USE;

/* Reads trained weights, masters and moments from a checkpoint's folder. */
enum status save_load_tensors(struct arena *scratch, const char *folder,
                              const struct save_target *target, struct optim *optim,
                              struct err *err) MUST_USE;

#endif
