/* words.h - a line of a recipe, in words: `name`, `key=value`, `key=one,two`. */
#ifndef RECIPES_WORDS_H
#define RECIPES_WORDS_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_WORDS = 64, MAX_LINE = 2000 };

typedef struct Words {
    int count;
    const char *word[MAX_WORDS];
} Words;

/* Cuts text, which is changed and has to stay, at its spaces. */
Words words_cut(char *text);

/* What is behind `key=`, "" for `key` alone; NULL where the line has no such word. */
const char *words_value(const Words *words, const char *key);

uint32_t words_number(const Words *words, const char *key, uint32_t otherwise);

/* Whether a list with commas has the item. */
bool listed(const char *list, const char *item);

/* Takes the next item off a list with commas. False: there is none. */
bool next_item(const char **list, char *item, unsigned size);

#endif
