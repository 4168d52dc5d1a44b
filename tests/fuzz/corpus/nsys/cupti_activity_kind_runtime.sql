create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table CUPTI_ACTIVITY_KIND_RUNTIME(start,end,globalTid,correlationId,nameId,eventClass);insert into CUPTI_ACTIVITY_KIND_RUNTIME values (100,200,16777217,1,1,1),(101,201,16777217,2,2,2);
