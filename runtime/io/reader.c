/* reader.c - see reader.h. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* A deflate stream grows by at most 1032 to 1. */
#define MAX_RATIO 1032

int mt_reader_fail(const mt_reader *r, const char *fmt, ...) {
  char text[MT_MESSAGE];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return mt_fail(r->rt, MT_ERROR, "%.300s: %s", r->path, text);
}

bool mt_reader_product(int n, const int64_t *size, int64_t element, int64_t *out) {
  int64_t product = element;
  bool zero = false;
  for (int i = 0; i < n; i++) {
    if (size[i] < 0) return false;
    if (size[i] == 0) zero = true;
  }
  /* Also for an empty tensor the other sizes must be ones that strides can be made of. */
  for (int i = 0; i < n; i++)
    if (size[i] && __builtin_mul_overflow(product, size[i], &product)) return false;
  *out = zero ? 0 : product;
  return true;
}

static int open_gzip(mt_reader *r) {
  unsigned char magic[2];
  if (pread(r->fd, magic, 2, 0) != 2 || magic[0] != 0x1f || magic[1] != 0x8b) return MT_OK;
  r->gz = gzdopen(r->fd, "rb");
  if (!r->gz) return mt_fail(r->rt, MT_NOMEM, "%.300s: out of memory", r->path);
  gzbuffer(r->gz, 1u << 16);
  if (__builtin_mul_overflow(r->length, (uint64_t)MAX_RATIO, &r->limit)) r->limit = UINT64_MAX;
  return MT_OK;
}

int mt_reader_open(mt_reader *r, moth_runtime *rt, const char *path, bool gzip) {
  struct stat st;
  *r = (mt_reader){.rt = rt, .path = path, .fd = -1};
  /* Without O_NONBLOCK opening a pipe would wait for a writer. */
  r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (r->fd < 0) return mt_reader_fail(r, "%s", strerror(errno));
  int status = MT_OK;
  if (fstat(r->fd, &st) != 0) {
    status = mt_reader_fail(r, "%s", strerror(errno));
  } else if (!S_ISREG(st.st_mode)) {
    status = mt_reader_fail(r, "not a regular file");
  } else {
    r->length = r->limit = (uint64_t)st.st_size;
    if (gzip) status = open_gzip(r);
  }
  if (status) mt_reader_close(r);
  return status;
}

void mt_reader_close(mt_reader *r) {
  if (r->gz) {
    gzclose(r->gz);
  } else if (r->fd >= 0) {
    close(r->fd);
  }
  r->gz = NULL;
  r->fd = -1;
}

/* Up to n bytes (at most INT_MAX): how many, 0 at the end, negative for an error. */
static long read_some(mt_reader *r, void *buf, size_t n) {
  const size_t most = (size_t)1 << 30;
  if (n > most) n = most;
  if (r->gz) return gzread(r->gz, buf, (unsigned)n);
  long got;
  do {
    got = (long)read(r->fd, buf, n);
  } while (got < 0 && errno == EINTR);
  return got;
}

static int read_error(mt_reader *r) {
  int code = Z_ERRNO;
  const char *text = r->gz ? gzerror(r->gz, &code) : "";
  /* zlib puts the name it knows in front: "<fd:3>: ". */
  const char *colon = strstr(text, ">: ");
  if (text[0] == '<' && colon) text = colon + 3;
  if (code == Z_MEM_ERROR) return mt_fail(r->rt, MT_NOMEM, "%.300s: out of memory", r->path);
  return mt_reader_fail(r, "%s", code == Z_ERRNO ? strerror(errno) : text);
}

int mt_reader_bytes(mt_reader *r, void *buf, size_t n, const char *what) {
  if (n > mt_reader_left(r)) return mt_reader_fail(r, "the file ends within %s", what);
  for (size_t done = 0; done < n;) {
    long got = read_some(r, (char *)buf + done, n - done);
    if (got < 0) return read_error(r);
    if (got == 0) return mt_reader_fail(r, "the file ends within %s", what);
    done += (size_t)got;
    r->at += (uint64_t)got;
  }
  return MT_OK;
}

int mt_reader_end(mt_reader *r) {
  char byte;
  long got = read_some(r, &byte, 1);
  if (got < 0) return read_error(r);
  return got == 0 ? MT_OK : mt_reader_fail(r, "there are bytes behind the data");
}
