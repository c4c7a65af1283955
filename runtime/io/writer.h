/* writer.h - files that appear whole or not at all.
 *
 * Bytes go to a new file beside the wanted one. mt_writer_finish syncs it and renames it over the
 * old one; mt_writer_drop removes it. Any other end (a crash, a full disk) leaves the old file as
 * it was. */
#ifndef MT_WRITER_H
#define MT_WRITER_H

#include "../tensor.h"

typedef struct mt_writer {
  moth_runtime *rt;
  const char *path; /* borrowed */
  char *temp;       /* a record */
  size_t temp_size;
  int fd;
} mt_writer;

int mt_writer_open(mt_writer *w, moth_runtime *rt, const char *path);
int mt_writer_bytes(mt_writer *w, const void *data, size_t n);
/* Ends the writer in either case. */
int mt_writer_finish(mt_writer *w);
void mt_writer_drop(mt_writer *w);

#endif
