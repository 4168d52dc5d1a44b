create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table PROFILER_OVERHEAD(start,end);insert into PROFILER_OVERHEAD values (100,200),(101,201);
