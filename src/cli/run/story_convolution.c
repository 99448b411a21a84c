// SPDX-License-Identifier: Apache-2.0
/* See story_convolution.h. */
#include "cli/run/story_convolution.h"

#include <stdbool.h>

#include "base/vec.h"

#include "recorder/convolution.h"

/* Windows that lie side by side, as those of a patch embedding do. */
static bool is_patches(const struct record_convolution *c)
{
    bool patches = c->rank > 2 && c->groups <= 1;
    for (int i = 0; i < c->rank - 2 && i < 3; i++) {
        patches = patches && c->stride[i] == c->w_size[i + 2] && c->padding[i] == 0 &&
                  c->dilation[i] == 1;
    }
    return patches;
}

void run_story_convolution(struct arena *a, const struct record_convolution *c, struct finding *f)
{
    const char *line = convolution_driver_line(a, c);
    if (line != NULL) {
        *VEC_PUSH(a, &f->remedy) = arena_fmt(
            a, "%s      # repeats it alone, for MIOpen's maintainers", line);
    }
    if (is_patches(c)) {
        *VEC_PUSH(a, &f->remedy) =
            "its windows do not overlap: torch.nn.functional.linear over the patches, with the same weights, "
            "computes it without this library";
    }
    *VEC_PUSH(a, &f->remedy) =
        "torch.backends.cudnn.enabled = False      # the control: PyTorch's own convolution instead (of "
        "MIOpen's as well)";
}
