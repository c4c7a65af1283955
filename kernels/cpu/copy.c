/* copy.c - out[0] = in[0], any dtypes, any strides, in[0] broadcast to out[0].
 *
 * Contiguous and of one dtype it is a memcpy. All else goes in tiles (tiles.h): the same dtype
 * moves from place to place, a transpose in squares of whole cache lines; another dtype is
 * converted on the way. Floats become integers by truncation; what no int64 holds, NaN included,
 * becomes the smallest one; narrower integers take the low bits. Anything but 0 is true. Complex
 * numbers become real ones by their real part. */
#include <string.h>

#include "move.h"
#include "tiles.h"

#define GRAIN 65536

typedef struct flat {
  char *to;
  const char *from;
  int64_t size;
} flat;

static void copy_flat(void *ctx, int64_t begin, int64_t end, int worker) {
  const flat *f = ctx;
  (void)worker;
  memcpy(f->to + begin * f->size, f->from + begin * f->size, (size_t)((end - begin) * f->size));
}

static void copy_tiles(void *ctx, int64_t begin, int64_t end, int worker) {
  const mt_tiles *t = ctx;
  mt_tile at;
  (void)worker;
  mt_tile_begin(&at);
  for (int64_t i = begin; i < end; i++) {
    mt_tile_seek(t, &at, i);
    mt_tile_copy(t, &at);
  }
}

static void convert_tiles(void *ctx, int64_t begin, int64_t end, int worker) {
  const mt_tiles *t = ctx;
  char buffer[MT_TILE * 8] __attribute__((aligned(64)));
  mt_tile at;
  (void)worker;
  mt_tile_begin(&at);
  for (int64_t i = begin; i < end; i++) {
    mt_tile_seek(t, &at, i);
    mt_tile_load(t, &at, 1, t->direct[0] ? at.place[0] : buffer);
    if (!t->direct[0]) mt_tile_store(t, &at, buffer);
  }
}

int mt_cpu_copy(const mt_kargs *k) {
  const mt_view *d = k->out[0], *s = k->in[0];
  const struct mt_ew_table *table = k->isa->ew;
  const mt_dtype to = (mt_dtype)d->dtype;
  const bool same = d->dtype == s->dtype;
  if (d->numel == 0) return MT_OK;
  if (s->numel == 1) { /* convert once, then fill */
    char value[8];
    mt_convert(table, to, value, (mt_dtype)s->dtype, s->data, 1);
    mt_move_fill(k->par, d, value);
    return MT_OK;
  }
  if (same && d->contiguous && s->contiguous && d->numel == s->numel) {
    flat f = {d->data, s->data, mt_dtype_size(to)};
    mt_parallel_for(k->par, d->numel, 4 * GRAIN / f.size, copy_flat, &f);
    return MT_OK;
  }
  mt_tiles t;
  mt_tiles_make(&t, table, 2, (const mt_view *const[]){d, s}, (const mt_dtype[]){to, to}, !same);
  int64_t tile = t.rows * t.cols;
  mt_parallel_for(k->par, t.count, (GRAIN / 2 + tile - 1) / tile, same ? copy_tiles : convert_tiles,
                  &t);
  return MT_OK;
}
