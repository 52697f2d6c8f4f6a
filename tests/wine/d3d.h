/* d3d.h - what Direct3D's test programs have in common. */
#ifndef TEST_D3D_H
#define TEST_D3D_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <d3dcompiler.h>

static void check(const char *what, HRESULT result)
{
    if (result == S_OK)
        return;
    fprintf(stderr, "%s: HRESULT %#lx\n", what, (unsigned long)result);
    exit(2);
}

/* Returns the code of a shader with a number in it, which makes it another one than those before. */
static ID3D10Blob *compile(const char *format, int number, const char *target)
{
    char text[300];
    ID3D10Blob *code, *errors = NULL;
    snprintf(text, sizeof text, format, number);
    HRESULT result = D3DCompile(text, strlen(text), NULL, NULL, NULL, "main", target, 0, 0, &code, &errors);
    if (errors)
        fprintf(stderr, "%.*s\n", (int)ID3D10Blob_GetBufferSize(errors), (char *)ID3D10Blob_GetBufferPointer(errors));
    check("D3DCompile", result);
    return code;
}

#endif
