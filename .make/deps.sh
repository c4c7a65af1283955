#!/bin/sh
# Installs the system packages that are missing, and only those: compiler, make, pkg-config, Lua 5.4,
# zlib, jansson, libedit (line editing) and Check (tests). OpenBLAS is used when there is one.
set -u

missing=""
have() { command -v "$1" >/dev/null 2>&1; }
need() { missing="$missing $1"; }
pc() { have pkg-config && pkg-config --exists "$1" 2>/dev/null; }

have gcc || need cc
have make || need make
have pkg-config || need pkgconf
{ pc "lua5.4 >= 5.4.4" || pc "lua-5.4 >= 5.4.4" || pc "lua54 >= 5.4.4" || pc "lua >= 5.4.4"; } || need luadev
{ have lua5.4 || have lua54 || have lua; } || need lua
pc zlib || need zlib
pc jansson || need jansson
[ -e /usr/include/editline/readline.h ] || [ "$(uname)" = Darwin ] || need edit
pc check || need check
[ -z "$missing" ] && exit 0

# What each need is called by each package manager.
names() {
  for n in $missing; do
    case "$1:$n" in
      apt:cc) echo gcc libc6-dev ;; dnf:cc) echo gcc ;; pacman:cc) echo gcc ;; apk:cc) echo gcc musl-dev ;;
      *:make) echo make ;;
      apt:pkgconf) echo pkg-config ;; dnf:pkgconf) echo pkgconf-pkg-config ;; *:pkgconf) echo pkgconf ;;
      apt:luadev) echo liblua5.4-dev ;; dnf:luadev) echo lua-devel ;; pacman:luadev) echo lua54 ;;
      apk:luadev) echo lua5.4-dev ;; brew:luadev) echo lua ;;
      apt:lua | apk:lua) echo lua5.4 ;; pacman:lua) echo lua54 ;; *:lua) echo lua ;;
      apt:zlib) echo zlib1g-dev ;; dnf:zlib) echo zlib-devel ;; apk:zlib) echo zlib-dev ;; *:zlib) echo zlib ;;
      apt:jansson) echo libjansson-dev ;; dnf:jansson) echo jansson-devel ;; apk:jansson) echo jansson-dev ;;
      *:jansson) echo jansson ;;
      apt:edit) echo libedit-dev ;; dnf:edit) echo libedit-devel ;; apk:edit) echo libedit-dev ;;
      *:edit) echo libedit ;;
      dnf:check) echo check-devel ;; apk:check) echo check-dev ;; *:check) echo check ;;
    esac
  done
}

root=""
if [ "$(id -u)" != 0 ]; then
  if have sudo; then root=sudo; else root=""; fi
fi
echo "missing:$missing"
# shellcheck disable=SC2046  # names are words on purpose
if have apt-get; then
  $root apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive $root apt-get install -qy --no-install-recommends $(names apt)
elif have dnf; then
  $root dnf install -qy $(names dnf)
elif have pacman; then
  $root pacman -Sy --noconfirm --needed $(names pacman)
elif have apk; then
  $root apk add $(names apk)
elif have brew; then
  brew install $(names brew)
else
  echo "No package manager that is known here: please install them by hand." >&2
  exit 1
fi || {
  echo "Could not install them; see above." >&2
  exit 1
}
