// SPDX-License-Identifier: Apache-2.0
/*
 * Facts about the installed PyTorch, from torch/version.py and the files of the wheel.
 */
#ifndef ASSAY_FACTS_PYTHON_TORCH_H
#define ASSAY_FACTS_PYTHON_TORCH_H

#include "base/arena.h"

struct collect;
struct python_env;

/* "rocm6.4", "cu128", "cpu" from a version with a local tag of PyTorch's or AMD's own builds
 * ("2.9.0+rocm7.10.0a20251124" gives "rocm7.10.0"); NULL for none and for source builds. */
const char *python_torch_build(struct arena *a, const char *version);

/* Which back end PyTorch prefers for GEMM on a GPU when no variable says so: "hipblaslt" or
 * "cublas" (which is hipBLAS and so rocBLAS on ROCm); NULL when it is not established for this
 * target and version. `hip` is torch.version.hip. */
const char *python_torch_default_blas(const char *gfx, const char *hip);

/* Sets torch.*. Returns the folder of torch's libraries, or NULL when torch is not there. */
const char *python_torch_facts(const struct collect *c, struct arena *a,
                               const struct python_env *env);

/* Sets torch.requires_triton and its neighbours. */
void python_triton_facts(const struct collect *c, struct arena *a, const struct python_env *env);

#endif
