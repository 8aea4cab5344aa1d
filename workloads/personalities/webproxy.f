# SPDX-License-Identifier: GPL-3.0-or-later
# The cache of a web proxy: one page is replaced, five are read whole, then the log is appended to.

set $dir=/tmp
set $nfiles=10000
set $meandirwidth=1000000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=100
set $iosize=1m
set $meanappendsize=16k
set $runtime=60

define fileset name=cache,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$meandirwidth,prealloc=80
define fileset name=log,path=$dir,entries=1,size=$filesize,dirwidth=$meandirwidth,prealloc=100

define flowop name=serve
{
  flowop openfile name=open,filesetname=cache,fd=1
  flowop readwholefile name=read,iosize=$iosize,fd=1
  flowop closefile name=close,fd=1
}

define process name=proxy
{
  thread name=worker,instances=$nthreads,memsize=10m
  {
    flowop deletefile name=evict,filesetname=cache

    flowop createfile name=store,filesetname=cache,fd=1
    flowop appendfilerand name=store-append,iosize=$meanappendsize,fd=1
    flowop closefile name=store-close,fd=1

    flowop serve name=hits,iters=5
    flowop appendfilerand name=log,filesetname=log,iosize=$meanappendsize,fd=2
  }
}

run $runtime
