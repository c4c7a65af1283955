/* writer.c - see writer.h. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const mt_writer *w, int error) {
  return mt_fail(w->rt, MT_ERROR, "%.300s: %s", w->path, strerror(error));
}

static void forget(mt_writer *w) {
  if (w->temp) mt_record_free(&w->rt->alloc, w->temp, w->temp_size);
  w->temp = NULL;
}

/* O_EXCL: two processes that save to one path never write to one file. */
static int open_new(mt_writer *w) {
  for (int i = 0; i < 1000; i++) {
    snprintf(w->temp, w->temp_size, "%s.%ld-%d.tmp", w->path, (long)getpid(), i);
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd >= 0 || errno != EEXIST) break;
  }
  return w->fd >= 0 ? MT_OK : fail(w, errno);
}

int mt_writer_open(mt_writer *w, moth_runtime *rt, const char *path) {
  struct stat st;
  *w = (mt_writer){.rt = rt, .path = path, .fd = -1};
  bool there = stat(path, &st) == 0;
  if (there && !S_ISREG(st.st_mode))
    return mt_fail(rt, MT_ERROR, "%.300s: not a regular file", path);
  w->temp_size = strlen(path) + 40;
  w->temp = mt_record_new(&rt->alloc, w->temp_size);
  if (!w->temp) return mt_fail(rt, MT_NOMEM, "%.300s: out of memory", path);
  int status = open_new(w);
  if (status) {
    forget(w);
  } else if (there && fchmod(w->fd, st.st_mode & 07777) != 0) {
    errno = 0; /* another owner's file: the new one has the usual permissions */
  }
  return status;
}

int mt_writer_bytes(mt_writer *w, const void *data, size_t n) {
  const char *p = data;
  while (n > 0) {
    ssize_t put = write(w->fd, p, n < (1u << 30) ? n : 1u << 30);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail(w, errno);
    p += put;
    n -= (size_t)put;
  }
  return MT_OK;
}

/* The rename itself must reach the disk as well. */
static void sync_directory(mt_writer *w) {
  char *slash = strrchr(w->temp, '/');
  if (slash) slash[slash == w->temp] = 0;
  int fd = open(slash ? w->temp : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  if (fsync(fd) != 0) errno = 0; /* some file systems cannot */
  close(fd);
}

int mt_writer_finish(mt_writer *w) {
  int error = fsync(w->fd) != 0 ? errno : 0;
  if (close(w->fd) != 0 && !error) error = errno;
  w->fd = -1;
  if (!error && rename(w->temp, w->path) != 0) error = errno;
  if (error) {
    unlink(w->temp);
  } else {
    sync_directory(w);
  }
  forget(w);
  return error ? fail(w, error) : MT_OK;
}

void mt_writer_drop(mt_writer *w) {
  if (w->fd >= 0) close(w->fd);
  w->fd = -1;
  if (w->temp) unlink(w->temp);
  forget(w);
}
