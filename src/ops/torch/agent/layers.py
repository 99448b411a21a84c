# SPDX-License-Identifier: Apache-2.0
# Third part of the script that guard.py describes: operators that are layers of their own.
