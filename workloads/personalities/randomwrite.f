# SPDX-License-Identifier: GPL-3.0-or-later
# One large file, written at random offsets.

set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
set $workingset=0
set $directio=false
set $runtime=60

define file name=large,path=$dir,size=$filesize,prealloc,reuse,paralloc

define process name=random
{
  thread name=worker,instances=$nthreads,memsize=5m
  {
    flowop write name=write,filename=large,iosize=$iosize,random,workingset=$workingset,directio=$directio
  }
}

run $runtime
