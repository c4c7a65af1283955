/* tiles.h - operands of any dtype, stride and broadcast, piece by piece as contiguous runs.
 *
 * The dims of the result are ordered by its strides, merged where all operands allow it, and cut
 * into tiles of rows x cols. For each tile an operand is either used in place (`direct`: contiguous
 * there and of the wanted dtype) or loaded, with its conversion, into a dense buffer of MT_TILE
 * elements; results are stored the same way. Where an operand runs across the result (a transpose)
 * tiles are blocks, numbered so that few pages are in use at a time.
 *
 * Whoever computes in place of copying relies on this: a tile is loaded wholly before it is stored.
 */
#ifndef MT_CPU_TILES_H
#define MT_CPU_TILES_H

#include "ew.h"
#include "walk.h"

typedef struct mt_tiles {
  const struct mt_ew_table *t;
  int nop; /* operand 0 is the result */
  char *data[MT_WALK_OPS];
  mt_dtype dtype[MT_WALK_OPS], want[MT_WALK_OPS]; /* as stored, as computed */
  int size[MT_WALK_OPS];                          /* bytes as stored */
  bool direct[MT_WALK_OPS];
  mt_walk w;                                /* byte strides; the last two dims are cut */
  int64_t n0, n1, rows, cols;               /* their sizes; a tile's */
  int64_t s0[MT_WALK_OPS], s1[MT_WALK_OPS]; /* their strides */
  int64_t tiles0, tiles1, group, count;
} mt_tiles;

typedef struct mt_tile {
  int64_t rows, cols;
  char *place[MT_WALK_OPS]; /* where it begins in each operand */
  int64_t outer, base[MT_WALK_OPS];
} mt_tile;

/* `want` per operand. `buffered`: tiles fit MT_TILE elements unless every operand is direct; if
 * not, tiles may be larger (copies without conversion need no buffer). */
void mt_tiles_make(mt_tiles *r, const struct mt_ew_table *t, int nop, const mt_view *const *v,
                   const mt_dtype *want, bool buffered);
static inline void mt_tile_begin(mt_tile *at) { at->outer = -1; }
void mt_tile_seek(const mt_tiles *r, mt_tile *at, int64_t number);
/* Operand i of the tile to a dense run of the wanted dtype. */
void mt_tile_load(const mt_tiles *r, const mt_tile *at, int i, void *to);
/* A dense run of the wanted dtype to the result. */
void mt_tile_store(const mt_tiles *r, const mt_tile *at, const void *from);
/* Operand 1 to the result, both of one dtype. */
void mt_tile_copy(const mt_tiles *r, const mt_tile *at);

#endif
