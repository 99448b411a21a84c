// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "fake.h"

bool fake_asked(const char *variable, const char *word)
{
    const char *list = getenv(variable);
    size_t n = strlen(word);
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");
        if (length == n && memcmp(list, word, n) == 0) {
            return true;
        }
        list += length + (list[length] == ',');
    }
    return false;
}
