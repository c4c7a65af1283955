/* reader.h - the one way in which files are read.
 *
 * Files are hostile. A reader knows how many bytes there are before anything is believed, so that
 * sizes named in a file are checked with overflow-safe arithmetic against what the file can hold
 * before anything is allocated. Gzip streams are read through the same functions; their length is
 * bounded by what deflate can make of the file's bytes. Every error names the file. */
#ifndef MT_READER_H
#define MT_READER_H

#include "../tensor.h"

typedef struct mt_reader {
  moth_runtime *rt;
  const char *path; /* borrowed: for messages */
  int fd;
  void *gz;         /* gzFile, NULL: plain */
  uint64_t length;  /* bytes of the file */
  uint64_t limit;   /* bytes that it can give: length, or what gzip can make of it */
  uint64_t at;      /* bytes read */
} mt_reader;

/* Opens a regular file. With `gzip`, a file that starts like a gzip stream is unpacked. */
int mt_reader_open(mt_reader *r, moth_runtime *rt, const char *path, bool gzip);
void mt_reader_close(mt_reader *r);
/* Reads exactly n bytes; fails when there are fewer ("the file ends within WHAT"). */
int mt_reader_bytes(mt_reader *r, void *buf, size_t n, const char *what);
/* Bytes that may still follow; exact for plain files. */
static inline uint64_t mt_reader_left(const mt_reader *r) { return r->limit - r->at; }
/* MT_OK when nothing follows. */
int mt_reader_end(mt_reader *r);
/* mt_fail with the file's name in front. */
int mt_reader_fail(const mt_reader *r, const char *fmt, ...) MT_PRINTF(2, 3);

/* size[0] * ... * size[n-1] * element; false when it does not fit in an int64_t or a size is
 * negative. */
bool mt_reader_product(int n, const int64_t *size, int64_t element, int64_t *out);

#endif
