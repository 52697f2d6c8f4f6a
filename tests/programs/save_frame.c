/* Preloaded into a program that draws with Lavapipe under Xvfb, by vkcube_picture.sh.
 * A window's picture is gone with the window, and whoever looks at the screen at some time sees some frame.  Lavapipe
 * hands each frame to the X server with one xcb_put_image: this counts them, and copies the screen, which Xvfb keeps
 * in a file, when the wanted one is on it.
 *   SAVE_FRAME_NUMBER  which frame, from 1
 *   SAVE_FRAME_SCREEN  the file that Xvfb draws into
 *   SAVE_FRAME_COPY    where to copy it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <xcb/xcb.h>

static void copy_screen(xcb_connection_t *connection)
{
    /* An answer means that all requests before it were carried out. */
    free(xcb_get_input_focus_reply(connection, xcb_get_input_focus(connection), NULL));
    FILE *from = fopen(getenv("SAVE_FRAME_SCREEN"), "rb"), *to = fopen(getenv("SAVE_FRAME_COPY"), "wb");
    for (int byte; from && to && (byte = getc(from)) != EOF;)
        putc(byte, to);
    if (from)
        fclose(from);
    if (to)
        fclose(to);
}

xcb_void_cookie_t xcb_put_image(xcb_connection_t *connection, uint8_t format, xcb_drawable_t drawable,
                                xcb_gcontext_t context, uint16_t width, uint16_t height, int16_t x, int16_t y,
                                uint8_t left_pad, uint8_t depth, uint32_t length, const uint8_t *data)
{
    static atomic_int frame;
    xcb_void_cookie_t (*next)(xcb_connection_t *, uint8_t, xcb_drawable_t, xcb_gcontext_t, uint16_t, uint16_t, int16_t,
                              int16_t, uint8_t, uint8_t, uint32_t, const uint8_t *);
    *(void **)&next = dlsym(RTLD_NEXT, "xcb_put_image");
    xcb_void_cookie_t cookie =
        next(connection, format, drawable, context, width, height, x, y, left_pad, depth, length, data);
    if (++frame == atoi(getenv("SAVE_FRAME_NUMBER")))
        copy_screen(connection);
    return cookie;
}
