create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table CUPTI_ACTIVITY_KIND_CUDA_EVENT(correlationId,start);insert into CUPTI_ACTIVITY_KIND_CUDA_EVENT values (1,100),(2,101);
