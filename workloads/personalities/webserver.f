# SPDX-License-Identifier: GPL-3.0-or-later
# A web server: ten pages are read whole, then the log is appended to.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=100
set $iosize=1m
set $meanappendsize=16k
set $runtime=60

define fileset name=pages,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$meandirwidth,prealloc=100,readonly
define fileset name=log,path=$dir,entries=1,size=$filesize,dirwidth=$meandirwidth,prealloc=100

define flowop name=serve
{
  flowop openfile name=open,filesetname=pages,fd=1
  flowop readwholefile name=read,iosize=$iosize,fd=1
  flowop closefile name=close,fd=1
}

define process name=server
{
  thread name=worker,instances=$nthreads,memsize=10m
  {
    flowop serve name=pages,iters=10
    flowop appendfilerand name=log,filesetname=log,iosize=$meanappendsize,fd=2
  }
}

run $runtime
