// SPDX-License-Identifier: Apache-2.0
/*
 * The marks: cheap nets that let every line through which one of our readers could use. A reader
 * looks at the line again, so a net may be too wide, never too narrow. Each row needs a good needle
 * (needle.h), the first ones above all: busy logs have millions of their lines.
 */
#include "diagnosis/scan.h"

const struct scan_mark_row scan_mark_rows[] = {
    {MARK_METRIC, "loss[:='\"]|[Nn]orm[:='\"]|ppl[:='\"]"},
    {MARK_METRIC, "loss +(?:[0-9]+\\.[0-9]|nan\\b)"},
    {MARK_METRIC, "[^A-Za-z]steps?[:='\"]|\\biteration "},
    {MARK_PROGRESS, "it/s[\\],]|s/it[\\],]"},
    {MARK_TRACEBACK, "Traceback \\(most recent call last\\)"},
    {MARK_TRACEBACK, "\", line [0-9]+, in "},
    {MARK_EXCEPTION,
     "(?:^|[\\]:|)>][ \\t]?)(?:[A-Za-z_]\\w*\\.)*[A-Z]\\w*"
     "(?:Error|Exception|Interrupt|Exit|OutOfResources|Timeout|Fault)(?::|[ \\t]*$)"},
    {MARK_TRACEBACK, "During handling of the above exception, another exception occurred"},
    {MARK_TRACEBACK, "was the direct cause of the following exception"},
    {MARK_EXCEPTION, "(?:^|[\\]:|)>][ \\t]?)(?:[a-z_]\\w*\\.)*Exception: "},
    {MARK_CHILD, "Root Cause \\(first observed failure\\)"},
    {MARK_KERNEL_FAULT, "page fault \\(src_id:"},
    {MARK_KERNEL_FAULT, "L2_PROTECTION_FAULT_STATUS"},
    {MARK_KERNEL_FAULT, "in page starting at address 0x"},
    {MARK_KERNEL_FAULT, "Faulty UTCL2 client ID"},
    {MARK_KERNEL_FAULT, "\\b(?:MORE_FAULTS|WALKER_ERROR|PERMISSION_FAULTS|MAPPING_ERROR|RW): 0x"},
    {MARK_KERNEL_FAULT, "(?:(?:in|for) process|: +Process) [^\\n:]{0,40}pid [0-9]+ thread "},
    {MARK_KERNEL_FAULT, "cookie node_id [0-9]+ fault from die"},
    {MARK_XID, "NVRM: Xid \\("},
    {MARK_ROCR_BLOCK, "Queue error - HSA_STATUS|\\[VGPU=0x|Dispatch Header ?= ?0x"},
    {MARK_ROCR_BLOCK, "(?:kernel_obj|completion_signal|faulting_addr)=0x|private_seg_size=[0-9]"},
    {MARK_ROCR_BLOCK, "Memory Fault Error \\[|(?:Kernel Name|ShaderName) ?:|\\bgrid=\\["},
    {MARK_DEATH, "exitcode ?: ?-?[0-9]|Signal [0-9]+ \\(SIG|died with <Signals"},
    {MARK_DEATH, "Segmentation fault|core dumped|Fatal Python error|[Bb]us error|\\bAborted\\b"},
    {MARK_DEATH, "(?:^|[ :])Killed(?:$|[ \\t:])|exited on signal [0-9]|terminate called "},
    {MARK_DEATH, "exit(?:ed)? (?:with )?(?:on )?(?:code|status|signal)[ :=]{0,3}-?[0-9]"},
    {MARK_DEATH, "return ?code[ :=]{0,3}-?[1-9]"},
    {MARK_DEATH, "non-zero exit status [0-9]|\\bSIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE)\\b"},
    {MARK_DEATH, "Caught signal [0-9]+|killed by signal|DUE TO TIME LIMIT|oom.kill event"},
    {MARK_PHASE, "Loading (?:checkpoint|safetensors|pipeline|weights|model)|oading weights"},
    {MARK_PHASE, "(?:Running tokenizer|Tokenizing|Converting format|Grouping texts|Packing)\\b"},
    {MARK_PHASE, "(?:Map|Filter)(?: \\(num_proc=[0-9]+\\))?: +[0-9]|Generating \\w+ split"},
    {MARK_PHASE, "Running training|[Ss]tart(?:ing|ed)? (?:the )?train(?:ing|er)"},
    {MARK_PHASE, "Running (?:Evaluation|evaluation|Prediction|prediction)"},
    {MARK_PHASE,
     "[Ss]aving (?:model|checkpoint|the|final|trained|state)|[Ss]aved (?:model|checkpoint)"},
    {MARK_PHASE, "(?i)total (?:optimization|training|train) (?:steps|iterations) ?[=:] ?[0-9]"},
    {MARK_END, "train_runtime['\"]? *[:=]|Training completed|\\*+ train metrics \\*+"},
    {MARK_END,
     "(?i)\\btraining (?:is |has |was )?(?:been )?(?:complete|completed|finished|done)\\b"},
    {MARK_END, "(?i)\\b(?:finished|completed|done with) training\\b|training took [0-9]"},
    {MARK_END, "`Trainer\\.fit` stopped: `max_|exiting program at iteration [0-9]"},
    {MARK_END,
     "(?i)\\b(?:run|job|training) (?:finished|ended|exited|completed) with exit (?:code|status) 0\\b"},
    {MARK_END,
     "(?i)(?:model weights|final model|trained model) saved|saved (?:final|trained) model"},
    {MARK_END, "(?i)(?:saving|saved) (?:the )?(?:final|trained) (?:model|checkpoint|weights)"},
};

const size_t scan_mark_row_count = sizeof scan_mark_rows / sizeof scan_mark_rows[0];
