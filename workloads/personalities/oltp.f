# SPDX-License-Identifier: GPL-3.0-or-later
# A database: readers with think time, and two kinds of writers that transactions wake; one of them
# writes the log.

set $dir=/tmp
set $nfiles=10
set $nlogfiles=1
set $filesize=10m
set $logfilesize=10m
set $iosize=2k
set $logiosize=256k
set $nreaders=200
set $nwriters=10
set $think=200000
set $workingset=0
set $directio=false
set $memperthread=1m
set $eventrate=0
set $runtime=60

eventgen rate=$eventrate

define fileset name=tables,path=$dir,entries=$nfiles,size=$filesize,dirwidth=1024,prealloc=100,reuse
define fileset name=log,path=$dir,entries=$nlogfiles,size=$logfilesize,dirwidth=1024,prealloc=100,reuse

define process name=log-writer
{
  thread name=log-writer,memsize=$memperthread
  {
    flowop aiowrite name=log-write,filesetname=log,iosize=$logiosize,random,dsync,directio=$directio
    flowop aiowait name=log-wait
    flowop semblock name=log-idle,value=3200,highwater=1000
  }
}

define process name=table-writer,instances=$nwriters
{
  thread name=table-writer,memsize=$memperthread
  {
    flowop aiowrite name=table-write,filesetname=tables,iosize=$iosize,workingset=$workingset,
      random,dsync,directio=$directio,opennext,iters=100
    flowop hog name=table-work,value=10000
    flowop semblock name=table-idle,value=1000,highwater=2000
    flowop aiowait name=table-wait
  }
}

define process name=reader,instances=$nreaders
{
  thread name=reader,memsize=$memperthread
  {
    flowop read name=row-read,filesetname=tables,iosize=$iosize,workingset=$workingset,
      random,directio=$directio,opennext
    flowop hog name=row-think,value=$think
    flowop sempost name=log-post,target=log-idle,value=1,blocking
    flowop sempost name=table-post,target=table-idle,value=1,blocking
    flowop eventlimit name=row-rate
  }
}

run $runtime
