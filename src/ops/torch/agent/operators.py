# SPDX-License-Identifier: Apache-2.0
# Second part of the script that guard.py describes: each operator in the ways PyTorch offers it.
#
# A way is a function of (torch, tensors by name, attributes); it returns the result, or several by
# name. Names and shapes of tensors and attributes are those of `assay probe --help-op`; what a way
# cannot do it says with NotImplementedError, which is reported as "missing", never as a pass.

WAYS = {}  # operator: {way: function}


def way(operator, name):
    def add(function):
        WAYS.setdefault(operator, {})[name] = function
        return function
    return add


def list_variants(torch):
    return {operator: sorted(ways) for operator, ways in WAYS.items()}


def find_variant(operator, name):
    if name not in WAYS.get(operator, {}):
        raise NotImplementedError("the agent knows no way '%s' of '%s'" % (name, operator))
    return WAYS[operator][name]
