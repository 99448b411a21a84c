// SPDX-License-Identifier: Apache-2.0
/*
 * Native libraries inside Python packages: which there are, what they were built against (CUDA,
 * ROCm, CPU), which C++ ABI of torch they expect, and which of torch's symbols they ask for that
 * the installed torch does not define.
 */
#ifndef ASSAY_FACTS_PYTHON_NATIVE_H
#define ASSAY_FACTS_PYTHON_NATIVE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct collect;
struct python_env;
struct python_dist;

/* +1 the new C++11 ABI, -1 the old one, 0 the name does not tell. Counts only names of c10, at and
 * torch that carry a std::string. */
int python_abi_of_symbol(struct str mangled);

/* True for a mangled name in the namespaces c10, at or torch. */
bool python_symbol_is_torchs(struct str mangled);

/* True when the package is one whose native libraries are always of interest. */
typedef bool (*python_known_fn)(const char *name);

/* Sets pkg.<name>.native_libs, .build, .cxx11abi, .missing_symbols for each distribution but torch
 * that is `known` or needs libtorch; `torch_lib` is the folder of torch's libraries or NULL. */
void python_native_facts(const struct collect *c, const struct python_env *env,
                         const char *torch_lib, python_known_fn known);

/* C++11 ABI of torch itself from libc10.so, into torch.cxx11abi. */
void python_torch_abi(const struct collect *c, const char *torch_lib);

#endif
