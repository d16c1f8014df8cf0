/*
 * room: arrays that grow by doubling.
 */
#ifndef LP_RUN_ROOM_H
#define LP_RUN_ROOM_H

#include <stdlib.h>
#include <string.h>

/* Makes room for one more element in an array of which `used` are in use. array is the address of the pointer to it,
   whatever its type. 0, or -1 without memory: the array is then as it was. */
static inline int lp_run_room(void *array, size_t *room, size_t used, size_t element_size)
{
    if (used < *room)
        return 0;
    size_t larger = *room ? *room * 2 : 16;
    void *elements;
    memcpy(&elements, array, sizeof elements);
    elements = reallocarray(elements, larger, element_size);
    if (!elements)
        return -1;
    memcpy(array, &elements, sizeof elements);
    *room = larger;
    return 0;
}

#endif
