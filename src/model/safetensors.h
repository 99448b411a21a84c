// SPDX-License-Identifier: Apache-2.0
/*
 * safetensors: u64 little-endian N, N bytes of JSON, data. Checked in the order of the reference
 * reader, so that the first issue is what that reader would refuse the file for; later issues are
 * listed too, as far as the header can be read.
 *
 * Beyond the reference reader, as the format's README asks: duplicate names are refused, and a header
 * that does not begin with '{' is a warning.
 *
 * Source: huggingface/safetensors, safetensors/src/tensor.rs (read_metadata, Metadata::validate) and
 * README.md, "Format".
 */
#ifndef ASSAY_MODEL_SAFETENSORS_H
#define ASSAY_MODEL_SAFETENSORS_H

#include "model/tensor_file.h"

enum {
    SAFETENSORS_HEADER_MAX = 100000000 /* the reference reader's ceiling */
};

extern const struct tensor_format tensor_format_safetensors;

#endif
