#include "words.h"

#include <stdlib.h>
#include <string.h>

Words words_cut(char *text)
{
    Words words = {0};
    char *rest = NULL;
    for (char *word = strtok_r(text, " \n", &rest); word && words.count < MAX_WORDS;
         word = strtok_r(NULL, " \n", &rest))
        words.word[words.count++] = word;
    return words;
}

const char *words_value(const Words *words, const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < words->count; i++) {
        const char *word = words->word[i];
        if (strncmp(word, key, length) != 0)
            continue;
        if (word[length] == '\0')
            return "";
        if (word[length] == '=')
            return word + length + 1;
    }
    return NULL;
}

uint32_t words_number(const Words *words, const char *key, uint32_t otherwise)
{
    const char *value = words_value(words, key);
    return value ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

bool next_item(const char **list, char *item, unsigned size)
{
    if (!*list || !**list)
        return false;
    size_t length = strcspn(*list, ",");
    size_t copied = length < size ? length : size - 1;
    memcpy(item, *list, copied);
    item[copied] = '\0';
    *list += length + ((*list)[length] == ',');
    return true;
}

bool listed(const char *list, const char *item)
{
    char one[32];
    while (next_item(&list, one, sizeof one))
        if (strcmp(one, item) == 0)
            return true;
    return false;
}
