// SPDX-License-Identifier: Apache-2.0
/*
 * The PCI bus in sysfs: small readers that pci.c (the GPUs themselves) and pcie.c (what lies between
 * them: bridges, ACS, IOMMU) share.
 */
#ifndef ASSAY_FACTS_PCI_H
#define ASSAY_FACTS_PCI_H

#include <stddef.h>
#include <stdint.h>

struct collect;

#define PCI_FOLDER "/sys/bus/pci/devices"

enum {
    PCI_CLASS_DISPLAY = 0x03,
    PCI_CLASS_BRIDGE = 0x06,
    PCI_CLASS_ACCELERATOR = 0x12,
    PCI_SUBCLASS_ISA = 0x0601
};

/* Path of a device's file, on the scratch arena. */
const char *pci_file(struct collect *c, const char *address, const char *file);

/* A hexadecimal file ("vendor", "device", "class"), or -1. */
int64_t pci_number(struct collect *c, const char *address, const char *file);

/* Name of a device in the machine's pci.ids, or NULL. */
const char *pci_ids_name(struct collect *c, int64_t vendor, int64_t device);

/* Facts of pcie.c; `names` are all addresses on the bus. */
void pcie_facts(struct collect *c, const char *const *names, size_t count);

#endif
