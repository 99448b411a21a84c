// SPDX-License-Identifier: Apache-2.0
/*
 * Samples to batches: the order of an epoch, the place in it, packing. Samples are never cut or joined
 * here: a batch is whole samples end to end, and the label of each one's last token is ignored, so that
 * nothing is predicted across a border.
 */
#ifndef ASSAY_TRAIN_DATA_BATCH_H
#define ASSAY_TRAIN_DATA_BATCH_H

#include "train/data.h"
#include "train/model.h"

struct batch_limits {
    size_t sequences; /* of one micro-batch */
    size_t tokens;    /* 0: no packing. Else: as many samples as fit into this, at least one */
    bool shuffle;     /* a new order each epoch, from seed + epoch; else as in the file */
    uint64_t seed;
};

/* Where training is in its data: all that a resumed run needs besides the data. */
struct data_place {
    uint64_t epoch;
    uint64_t next; /* samples of the epoch that were taken */
};

struct batch_source {
    const struct dataset *data;
    struct batch_limits limits;
    struct data_place place;
    uint32_t *order;      /* of the epoch `order_epoch` */
    uint64_t order_epoch; /* UINT64_MAX: none yet */
};

void batch_source_init(struct arena *a, const struct dataset *data,
                       const struct batch_limits *limits, struct batch_source *ret_source);

/* The next micro-batch, on `scratch`; false at the end of the epoch, and the next call begins another. */
bool batch_next(struct batch_source *s, struct arena *scratch, struct train_batch *ret_batch);

/* Micro-batches of the epoch that the place is in. */
uint64_t batch_count(struct batch_source *s);

/* Labels that count in a batch. */
size_t batch_labels(const struct train_batch *b);

/* Copies samples into a batch with labels shifted. */
void batch_of_samples(struct arena *scratch, const struct sample *const *samples, size_t count,
                      struct train_batch *ret_batch);

#endif
