// SPDX-License-Identifier: Apache-2.0
/* Listeners on the ports of a training job's rendezvous. Part of process.c's facts. */
#ifndef ASSAY_FACTS_PORTS_H
#define ASSAY_FACTS_PORTS_H

struct collect;

/* Sets net.port.<n>.owner for MASTER_PORT and the usual defaults. */
void ports_facts(struct collect *c);

#endif
