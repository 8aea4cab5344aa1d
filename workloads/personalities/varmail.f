# SPDX-License-Identifier: GPL-3.0-or-later
# A mail server that keeps each mail in a file: deliver, read and mark, read again, delete.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=1000000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=16
set $iosize=1m
set $meanappendsize=16k
set $runtime=60

define fileset name=mails,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$meandirwidth,prealloc=80

define process name=server
{
  thread name=worker,instances=$nthreads,memsize=10m
  {
    flowop deletefile name=delete,filesetname=mails

    flowop createfile name=deliver,filesetname=mails,fd=1
    flowop appendfilerand name=deliver-append,iosize=$meanappendsize,fd=1
    flowop fsync name=deliver-fsync,fd=1
    flowop closefile name=deliver-close,fd=1

    flowop openfile name=mark,filesetname=mails,fd=1
    flowop readwholefile name=mark-read,iosize=$iosize,fd=1
    flowop appendfilerand name=mark-append,iosize=$meanappendsize,fd=1
    flowop fsync name=mark-fsync,fd=1
    flowop closefile name=mark-close,fd=1

    flowop openfile name=fetch,filesetname=mails,fd=1
    flowop readwholefile name=fetch-read,iosize=$iosize,fd=1
    flowop closefile name=fetch-close,fd=1
  }
}

run $runtime
