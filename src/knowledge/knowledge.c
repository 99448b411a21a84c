// SPDX-License-Identifier: Apache-2.0
/* Look-ups in loaded knowledge. */
#include "knowledge/knowledge.h"

#include <string.h>

/* True when a concrete key fits a row of fact_keys.tsv: "[]" stands for an index, "<name>" for any
 * text. A key with '*' (in conditions) fits where its star stands for an index or a name. */
static bool row_fits(const char *row, const char *key)
{
    while (*row != '\0') {
        if (row[0] == '[' && row[1] == ']') {
            if (key[0] != '[') {
                return false;
            }
            size_t n = strspn(key + 1, "0123456789*");
            if (n == 0 || key[1 + n] != ']') {
                return false;
            }
            row += 2;
            key += n + 2;
        } else if (*row == '<') {
            const char *close = strchr(row, '>');
            if (close == NULL) {
                return false;
            }
            for (const char *k = key; *k != '\0'; k++) {
                if (row_fits(close + 1, k + 1)) {
                    return true;
                }
            }
            return false;
        } else if (*row == *key) {
            row++;
            key++;
        } else {
            return false;
        }
    }
    return *key == '\0';
}

const struct fact_key *knowledge_fact_key(const struct knowledge *k, const char *key)
{
    const struct fact_key *best = NULL;
    size_t best_fixed = 0;
    for (size_t i = 0; i < k->fact_keys_count; i++) {
        const struct fact_key *row = &k->fact_keys[i];
        if (row->pattern[0] != key[0] || !row_fits(row->pattern, key)) {
            continue;
        }
        size_t fixed = strcspn(row->pattern, "<"); /* the row that says more about the key wins */
        if (best == NULL || fixed > best_fixed) {
            best = row;
            best_fixed = fixed;
        }
    }
    return best;
}

const struct taxon *knowledge_taxon(const struct knowledge *k, const char *slug)
{
    for (size_t i = 0; i < k->taxons_count; i++) {
        if (strcmp(k->taxons[i].slug, slug) == 0) {
            return &k->taxons[i];
        }
    }
    return NULL;
}
