// SPDX-License-Identifier: Apache-2.0
/*
 * Faults that the kernel or the runtime reports over several lines, joined into one event each:
 *
 * amdgpu-page-fault  hub vmid pasid pid process client rw permission walker mapping more_faults
 *                    status address pci, device_gone ("yes" when the status is 0xFFFFFFFF: the card
 *                    no longer answers), compute ("yes" for VMIDs 8 to 15, which belong to amdkfd)
 * nvidia-xid         xid name class pid process pci text
 * rocr-fault-block   error kernel address grid workgroup queue gpu
 *
 * Status words are decoded by number; the client's printed name is used only where no table knows
 * its number, because some kernels print "unknown (0x8)".
 */
#ifndef ASSAY_DIAGNOSIS_GPU_FAULT_H
#define ASSAY_DIAGNOSIS_GPU_FAULT_H

#include "diagnosis/event_store.h"

/* L2_PROTECTION_FAULT_STATUS, gfx9 to gfx12: checked on public samples. */
struct fault_status {
    unsigned more_faults; /* bit 0 */
    unsigned walker;      /* bits 1-3 */
    unsigned permission;  /* bits 4-7 */
    unsigned mapping;     /* bit 8 */
    unsigned client;      /* bits 9-17 */
    bool write;           /* bit 18 */
    unsigned vmid;        /* bits 20-23 */
    bool device_gone;     /* all ones */
};
struct fault_status fault_status_decode(uint32_t status);

/* Name of a client of the graphics hub, or NULL. */
const char *fault_client_name(unsigned client);

struct gpu_faults;
struct gpu_faults *gpu_faults_new(struct arena *a, struct event_store *store,
                                  const struct error_table *errors) MUST_USE RETURNS_NONNULL;

/* A line with MARK_KERNEL_FAULT, MARK_XID, MARK_ROCR_BLOCK. */
void gpu_faults_amdgpu(struct gpu_faults *g, const struct line_context *line);
void gpu_faults_xid(struct gpu_faults *g, const struct line_context *line);
void gpu_faults_rocr(struct gpu_faults *g, const struct line_context *line);

/* The file ends: what is open becomes events. */
void gpu_faults_flush(struct gpu_faults *g);

#endif
