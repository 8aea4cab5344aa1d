# SPDX-License-Identifier: GPL-3.0-or-later
# Home directories on a file server: write new files, append, read whole, delete, stat.

set $dir=/tmp
set $nfiles=10000
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $nthreads=50
set $iosize=1m
set $meanappendsize=16k
set $runtime=60

define fileset name=home,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$meandirwidth,prealloc=80

define process name=server
{
  thread name=user,instances=$nthreads,memsize=10m
  {
    flowop createfile name=new,filesetname=home,fd=1
    flowop writewholefile name=new-write,iosize=$iosize,fd=1,srcfd=1
    flowop closefile name=new-close,fd=1

    flowop openfile name=grow,filesetname=home,fd=1
    flowop appendfilerand name=grow-append,iosize=$meanappendsize,fd=1
    flowop closefile name=grow-close,fd=1

    flowop openfile name=fetch,filesetname=home,fd=1
    flowop readwholefile name=fetch-read,iosize=$iosize,fd=1
    flowop closefile name=fetch-close,fd=1

    flowop deletefile name=delete,filesetname=home
    flowop statfile name=stat,filesetname=home
  }
}

run $runtime
